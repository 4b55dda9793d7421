package org.apache.spark.sql.projseg

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier
import org.apache.spark.sql.catalyst.plans.logical.{CreateTable, CreateTableAsSelect, LogicalPlan, ReplaceTable}
import org.apache.spark.sql.catalyst.plans.logical.{ReplaceTableAsSelect, TableSpecBase, V2CreateTablePlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, TableCatalog}

/**
 * CREATE and REPLACE TABLE of projseg: refused of what no table keeps, and otherwise done in one commit of the
 * table's own log, whichever catalog it is of.
 *
 * A failed statement so leaves a table as it was, and what others write after the analysis is not lost.
 */
class StageTables(session: SparkSession) extends Rule[LogicalPlan] {
  private lazy val classic = session.asInstanceOf[ClassicSession]
  private lazy val tables = new SessionTables(classic)

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case create: CreateTable => staged(create, create.tableSpec).map(name => create.copy(name = name)).getOrElse(create)
    case create: CreateTableAsSelect =>
      staged(create, create.tableSpec, Seq(create.query), create.writeOptions).map(name => create.copy(name = name))
        .getOrElse(create)
    case replace: ReplaceTable =>
      staged(replace, replace.tableSpec).map(name => replace.copy(name = name)).getOrElse(replace)
    case replace: ReplaceTableAsSelect =>
      staged(replace, replace.tableSpec, Seq(replace.query), replace.writeOptions)
        .map(name => replace.copy(name = name)).getOrElse(replace)
    case other => other
  }

  private def staged(
      plan: V2CreateTablePlan, spec: TableSpecBase, queries: Seq[LogicalPlan] = Nil,
      options: Map[String, String] = Map.empty)
      : Option[LogicalPlan] = {
    val layout = options.filter { case (name, _) => Declaration.isOption(name) }
    plan.name match {
      case named @ ResolvedIdentifier(catalog: ProjsegCatalog, table) if plan.childrenResolved =>
        if (plan.partitioning.nonEmpty && !catalog.isOfDefinitions)
          throw Declaration.ofPartitions(SqlText.quoted(table.name))
        Some(named.copy(catalog = new StagedOwnCatalog(catalog, replaced(catalog.placeIfThere(table), queries),
            layout)))
      case named @ ResolvedIdentifier(catalog: TableCatalog, table)
          if plan.childrenResolved && CatalogV2Util.isSessionCatalog(catalog) && !catalog.isInstanceOf[StagedCatalog] &&
            spec.provider.exists(_.equalsIgnoreCase("projseg")) =>
        if (plan.partitioning.nonEmpty) throw Declaration.ofPartitions(SqlText.quoted(table.name))
        val place = tables.entry(catalog.name +: table.namespace.toSeq :+ table.name).map(_.location.toString)
        Some(named.copy(catalog = new StagedSessionCatalog(
          classic, tables, catalog, replaced(place.orElse(spec.location), queries), layout)))
      case _ => None
    }
  }

  /**
   * The version of a table that a statement replaces: the oldest that its query reads without
   * naming it, or the newest.
   */
  private def replaced(place: Option[String], queries: Seq[LogicalPlan]): Option[Long] = place.flatMap { found =>
    val read = queries.flatMap(_.collectWithSubqueries {
      case Table(table) if table.isPinned && plain(table.location) == plain(found) => table.version
    }).flatten
    (read ++ PlannedTable.newest(place)).minOption
  }

  private def plain(place: String): String = place.stripPrefix("file://").stripPrefix("file:").stripSuffix("/")
}
