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
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Gives reads and writes of tables of Spark's own catalog what the catalog knows of them.
 *
 * Spark hands a Python source neither the location nor the properties of the table that a statement
 * names. Both come from the catalog's entry of exactly that name, and from nowhere else.
 */
class BindCatalogTables(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!new Settings(conf).isEnabled) plan
    else plan.resolveOperators {
      case write: AppendData => entryOf(write.table).map(entry =>
        write.copy(writeOptions = bound(write.writeOptions, entry))).getOrElse(write)
      case write: OverwriteByExpression => entryOf(write.table).map(entry =>
        write.copy(writeOptions = bound(write.writeOptions, entry))).getOrElse(write)
      case relation: DataSourceV2Relation if !relation.options.containsKey("path") =>
        entryOf(relation).map { entry =>
          val options = new java.util.HashMap[String, String](relation.options.asCaseSensitiveMap())
          options.put("path", entry.location.toString)
          relation.copy(options = new CaseInsensitiveStringMap(options))
        }.getOrElse(relation)
    }

  private def entryOf(relation: NamedRelation): Option[CatalogTable] = relation match {
    case found: DataSourceV2Relation if Table.isProjseg(found) =>
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

  /** The statement's own options come first. */
  private def bound(options: Map[String, String], entry: CatalogTable): Map[String, String] = {
    val named = options.keySet.map(_.toLowerCase)
    if (named.contains("path")) return options
    val declared = (entry.properties ++ entry.storage.properties).collect {
      case (name, value) if BindCatalogTables.declarations.contains(name.toLowerCase) && !named.contains(name.toLowerCase) =>
        name -> value
    }
    options ++ declared + ("path" -> entry.location.toString)
  }
}

private object BindCatalogTables {
  /** Properties of a table that a first write declares. */
  val declarations: Set[String] =
    Set("timecolumn", "segmentgranularity", "clusterby", "targetsegmentrows", "projections")
}
