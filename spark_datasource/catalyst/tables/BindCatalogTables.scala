package org.apache.spark.sql.projseg

import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.{AppendData, LogicalPlan, OverwriteByExpression}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Gives reads and writes of tables of Spark's own catalog what the catalog knows of them.
 *
 * Spark hands a Python source neither the location nor the properties of the table that a statement
 * names. Both come from the catalog's entry of exactly that name, and from nowhere else.
 */
class BindCatalogTables(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.resolveOperators {
      case write: AppendData =>
        val (target, options) = bound(write.table, write.writeOptions)
        write.copy(table = target, writeOptions = options)
      case write: OverwriteByExpression =>
        val (target, options) = bound(write.table, write.writeOptions)
        write.copy(table = target, writeOptions = options)
      case relation: DataSourceV2Relation if !relation.options.containsKey("path") =>
        entryOf(relation).map { entry =>
          Table.withOptions(relation, Table.optionsOf(relation) + ("path" -> entry.location.toString))
        }.getOrElse(relation)
    }

  private def entryOf(relation: NamedRelation): Option[CatalogTable] = relation match {
    case found: DataSourceV2Relation if Table.isProjseg(found) && !found.table.isInstanceOf[ProjsegTable] =>
      for {
        identifier <- found.identifier
        catalog <- found.catalog
        if catalog.name() == "spark_catalog" && identifier.namespace().length == 1
        entry <- entryNamed(TableIdentifier(identifier.name(), Some(identifier.namespace().head)))
      } yield entry
    case _ => None
  }

  private def entryNamed(name: TableIdentifier): Option[CatalogTable] =
    try Some(session.asInstanceOf[ClassicSession].sessionState.catalog.getTableMetadata(name))
    catch { case NonFatal(_) => None }

  /**
   * The target of a write and the write's options. Spark takes options from one of two places, or from both where
   * they are equal; so all go to the write, the statement's own before what the catalog knows.
   */
  private def bound(table: NamedRelation, writeOptions: Map[String, String]): (NamedRelation, Map[String, String]) =
    table match {
      case relation: DataSourceV2Relation if Table.isProjseg(relation) =>
        val own = Table.optionsOf(relation)
        // The version that a view was made at is for reading it.
        val isPinned = own.keys.exists(_.equalsIgnoreCase(Table.Pinned))
        val kept = own.filterNot { case (name, _) => isPinned && Table.isOfPin(name) }
        val all = (kept ++ writeOptions).keySet.map(_.toLowerCase)
        val added =
          if (all.contains("path")) Map.empty[String, String]
          else entryOf(relation).map(known(_, all)).getOrElse(Map.empty)
        (Table.withOptions(relation, Map.empty), kept ++ writeOptions ++ added)
      case _ => (table, writeOptions)
    }

  private def known(entry: CatalogTable, given: Set[String]): Map[String, String] =
    (Declaration.optionsOf(entry) ++ Declaration.propertiesOf(entry))
      .filterNot { case (name, _) => given.contains(name.toLowerCase) } + ("path" -> entry.location.toString)
}
