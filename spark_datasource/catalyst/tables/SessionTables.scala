package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{AnalysisContext, ResolvedTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogPlugin, CatalogV2Util, Identifier, LookupCatalog}
import org.apache.spark.sql.connector.catalog.{Table => LoadedTable, TableCatalog}
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, V2SessionCatalog}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Projseg tables of the session catalog, by name.
 *
 * Where another catalog stands in the place of Spark's own (Delta's, Iceberg's), Spark takes every table of it
 * for one of its first interface, which sources written in Python do not have; so these are loaded here.
 */
private[projseg] class SessionTables(session: ClassicSession) extends LookupCatalog {
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
