package org.apache.spark.sql.projseg

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{AnalysisContext, ResolvedIdentifier, ResolvedTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.{CreateTable, CreateTableAsSelect, LogicalPlan, ReplaceTable}
import org.apache.spark.sql.catalyst.plans.logical.{ReplaceTableAsSelect, V2CreateTablePlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogPlugin, CatalogV2Util, Column, Identifier}
import org.apache.spark.sql.connector.catalog.{LookupCatalog, Table => LoadedTable, TableCatalog, TableChange}
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, V2SessionCatalog}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Projseg tables of the session catalog, by name.
 *
 * Where another catalog stands in the place of Spark's own (Delta's, Iceberg's), Spark takes every table of it
 * for one of its first interface, which sources written in Python do not have; so these are loaded here.
 */
private class SessionTables(session: ClassicSession) extends LookupCatalog {
  override protected val catalogManager: CatalogManager = session.sessionState.catalogManager

  /** Whether another catalog stands in the place of Spark's own. */
  def isReplaced: Boolean = !catalogManager.v2SessionCatalog.isInstanceOf[V2SessionCatalog]

  /** The entry of a projseg table; views come before tables, as Spark has them. */
  def entry(parts: Seq[String]): Option[CatalogTable] = {
    val catalog = session.sessionState.catalog
    // Names within a view are of the place where it was made.
    val place = AnalysisContext.get.catalogAndNamespace
    val whole = if (parts.length == 1) place ++ parts else parts
    if (place.isEmpty && catalog.isTempView(parts)) None
    else whole match {
      case CatalogAndIdentifier(found, named) if CatalogV2Util.isSessionCatalog(found) && named.namespace.length == 1 =>
        val table = TableIdentifier(named.name, Some(named.namespace.head))
        if (catalog.tableExists(table)) Some(catalog.getTableMetadata(table)).filter(Table.isOfProjseg) else None
      case _ => None
    }
  }

  def relation(entry: CatalogTable, options: CaseInsensitiveStringMap): DataSourceV2Relation =
    DataSourceV2Relation.create(loaded(entry), Some(catalog), Some(identifier(entry)), options)

  def resolved(entry: CatalogTable): ResolvedTable = ResolvedTable.create(catalog, identifier(entry), loaded(entry))

  /** The table as Spark's own session catalog loads it. */
  def loaded(entry: CatalogTable): LoadedTable =
    Sources.table(entry.schema, entry.storage.properties.asJava)

  private def catalog: TableCatalog = catalogManager.v2SessionCatalog.asTableCatalog

  private def identifier(entry: CatalogTable): Identifier = Identifier.of(Array(entry.database), entry.identifier.table)
}

/**
 * CREATE and REPLACE TABLE in the session catalog: refused of what no table keeps, and made to be filled by AS
 * SELECT where another catalog stands in the place of Spark's own.
 */
class CreateSessionTables(session: SparkSession) extends Rule[LogicalPlan] {
  private lazy val tables = new SessionTables(session.asInstanceOf[ClassicSession])

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case made: V2CreateTablePlan if made.childrenResolved && isProjseg(made) && made.partitioning.nonEmpty && !isDefined(made) =>
      throw Declaration.ofPartitions(SqlText.quoted(made.tableName.name))
    case create: CreateTableAsSelect => target(create).map(name => create.copy(name = name)).getOrElse(create)
    case replace: ReplaceTableAsSelect => target(replace).map(name => replace.copy(name = name)).getOrElse(replace)
    case other => other
  }

  private def target(plan: V2CreateTablePlan): Option[LogicalPlan] = plan.name match {
    case named @ ResolvedIdentifier(catalog: TableCatalog, _)
        if CatalogV2Util.isSessionCatalog(catalog) && tables.isReplaced && !catalog.isInstanceOf[WrittenCatalog] &&
          isProjseg(plan) =>
      Some(named.copy(catalog = new WrittenCatalog(catalog, tables)))
    case _ => None
  }

  /** Whether its catalog is one of definitions, which reads the clause itself. */
  private def isDefined(plan: V2CreateTablePlan): Boolean = plan.name match {
    case ResolvedIdentifier(catalog: ProjsegCatalog, _) => catalog.isOfDefinitions
    case _ => false
  }

  private def isProjseg(plan: V2CreateTablePlan): Boolean = {
    val specification = plan match {
      case one: CreateTable => Some(one.tableSpec)
      case one: CreateTableAsSelect => Some(one.tableSpec)
      case one: ReplaceTable => Some(one.tableSpec)
      case one: ReplaceTableAsSelect => Some(one.tableSpec)
      case _ => None
    }
    specification.flatMap(_.provider).exists(_.equalsIgnoreCase("projseg"))
  }
}

/** A session catalog whose new tables are loaded as projseg's, so that rows can be written to them. */
private class WrittenCatalog(below: TableCatalog, tables: SessionTables) extends TableCatalog {
  override def name(): String = below.name()
  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = ()
  override def listTables(namespace: Array[String]): Array[Identifier] = below.listTables(namespace)
  override def tableExists(named: Identifier): Boolean = below.tableExists(named)
  override def loadTable(named: Identifier): LoadedTable =
    tables.entry(name() +: named.namespace.toSeq :+ named.name).map(tables.loaded).getOrElse(below.loadTable(named))
  override def createTable(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], properties: util.Map[String, String])
      : LoadedTable = {
    below.createTable(named, columns, partitions, properties)
    loadTable(named)
  }
  override def alterTable(named: Identifier, changes: TableChange*): LoadedTable = below.alterTable(named, changes: _*)
  override def dropTable(named: Identifier): Boolean = below.dropTable(named)
  override def renameTable(named: Identifier, renamed: Identifier): Unit = below.renameTable(named, renamed)
}
