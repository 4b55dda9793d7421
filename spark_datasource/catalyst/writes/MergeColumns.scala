package org.apache.spark.sql.projseg

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{NamedRelation, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Cast}
import org.apache.spark.sql.catalyst.plans.logical.{AppendData, LogicalPlan, OverwriteByExpression, V2WriteCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog, TableChange}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{StringType, StructField, StructType}

/**
 * Writes of frames by name with `mergeSchema`: the target gets the columns that the table lacks, and the types that
 * are wider in the frame, before Spark compares the two. The source adds and widens them in the commit of the rows.
 */
class MergeColumns(session: SparkSession) extends Rule[LogicalPlan] with LookupCatalog {
  private lazy val classic = session.asInstanceOf[ClassicSession]
  private lazy val tables = new SessionTables(classic)
  override protected lazy val catalogManager: CatalogManager = classic.sessionState.catalogManager

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: AppendData => merged(write, write.writeOptions)(options => write.copy(writeOptions = options))
    case write: OverwriteByExpression =>
      merged(write, write.writeOptions)(options => write.copy(writeOptions = options))
    case other => other
  }

  private def merged(write: V2WriteCommand,
      options: Map[String, String])(withOptions: Map[String, String] => V2WriteCommand)
      : LogicalPlan =
    if (!write.isByName || !MergeColumns.isAsked(options)) write
    else target(write.table).map { found =>
      val output = columns(found.output, analyzed(write.query).output)
      found.table match {
        case defined: DefinedTable =>
          withOptions(MergeColumns.others(options)).withNewTable(declared(found, defined, output))
        case _ => write.withNewTable(if (output == found.output) found else MergeColumns.withColumns(found, output))
      }
    }.getOrElse(write)

  /** The rows that are written: `writeTo` gives a frame's plan as it was before analysis. */
  private def analyzed(query: LogicalPlan): LogicalPlan =
    if (query.resolved) query else classic.sessionState.executePlan(query).analyzed

  /** A definition that declares these columns: its columns are those declared, so that it has them before any row. */
  private def declared(relation: DataSourceV2Relation, defined: DefinedTable, output: Seq[Attribute]): NamedRelation = {
    val changes = output.zipAll(relation.output, null, null).collect {
      case (added, null) => TableChange.addColumn(Array(added.name), added.dataType)
      case (one, before) if one.dataType != before.dataType =>
        TableChange.updateColumnType(Array(one.name), one.dataType)
    }
    val table = if (changes.isEmpty) defined else defined.catalog.alterTable(defined.named, changes: _*)
    val made = DataSourceV2Relation.create(table, relation.catalog, relation.identifier)
    Table.withOptions(made, MergeColumns.others(Table.optionsOf(relation)))
  }

  /** The table that is written to, whether Spark has found it yet or not. */
  private def target(table: NamedRelation): Option[DataSourceV2Relation] = (table match {
    case relation: DataSourceV2Relation => Some(relation)
    case named: UnresolvedRelation =>
      val options = named.clearWritePrivileges.options
      tables.entry(named.multipartIdentifier).map(tables.relation(_, options)).orElse(named.multipartIdentifier match {
        case NonSessionCatalogAndIdentifier(catalog: ProjsegCatalog, name) if catalog.tableExists(name) =>
          Some(DataSourceV2Relation.create(catalog.loadTable(name), Some(catalog), Some(name), options))
        case _ => None
      })
    case _ => None
  }).filter(Table.isProjseg(_))

  /** The columns of a table and of the rows that are written to it. */
  private def columns(stored: Seq[Attribute], given: Seq[Attribute]): Seq[AttributeReference] = {
    def same(one: Attribute)(other: Attribute): Boolean = conf.resolver(one.name, other.name)
    val known = stored.map { column =>
      val wider = given.find(same(column)).map(_.dataType).filter(kind =>
        kind != column.dataType && !kind.isInstanceOf[StringType] && Cast.canUpCast(column.dataType, kind))
      wider.map(AttributeReference(column.name, _)()).getOrElse(column.asInstanceOf[AttributeReference])
    }
    known ++ given.filterNot(one => stored.exists(same(one))).map(one => AttributeReference(one.name, one.dataType)())
  }
}

object MergeColumns {
  def isAsked(options: Map[String, String]): Boolean =
    options.exists { case (name, text) => name.equalsIgnoreCase(Named) && text.equalsIgnoreCase("true") }

  private val Named = "mergeSchema"

  private def others(options: Map[String, String]): Map[String, String] =
    options.filterNot { case (name, _) => name.equalsIgnoreCase(Named) }

  private def withColumns(relation: DataSourceV2Relation, output: Seq[AttributeReference]): DataSourceV2Relation = {
    val columns = StructType(output.map(one => StructField(one.name, one.dataType, one.nullable, one.metadata)))
    relation.copy(output = output, table = relation.table match {
      case own: ProjsegTable => own.withColumns(columns)
      case _ => Sources.table(columns, java.util.Map.of())
    })
  }
}

/** Gives the entry of Spark's own catalog the columns that a write has merged into its table. */
class FollowMergedColumns(session: SparkSession) extends AfterWrites {
  override protected def after(write: LogicalPlan): Option[() => Unit] = write match {
    case V2WriteOfTable(relation, options) if MergeColumns.isAsked(options) &&
        relation.catalog.exists(_.name == CatalogManager.SESSION_CATALOG_NAME) =>
      relation.identifier.map(named => () => ChangedEntry.follow(
        session.asInstanceOf[ClassicSession],
        CatalogManager.SESSION_CATALOG_NAME +: named.namespace.toSeq :+ named.name))
    case _ => None
  }
}
