package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.types.StructType

/** What Spark's own catalog says of a table. */
object SessionEntry {
  /** Puts an entry in the place of the one of its name; what lies at its place stays. */
  def replace(session: ClassicSession, entry: CatalogTable): Unit = {
    val catalog = session.sessionState.catalog.externalCatalog
    catalog.alterTable(entry)
    catalog.alterTableDataSchema(entry.database, entry.identifier.table, entry.schema)
    session.catalog.refreshTable(entry.identifier.quotedString)
  }

  def declare(
      session: ClassicSession, entry: CatalogTable, columns: StructType, options: Map[String, String]): Unit = {
    val catalog = session.sessionState.catalog
    def present(given: Map[String, String]): Map[String, String] =
      given.map { case (name, text) => name -> options.getOrElse(name.toLowerCase, text) }
    if (options.nonEmpty) catalog.externalCatalog.alterTable(entry.copy(
      properties = present(entry.properties),
      storage = entry.storage.copy(properties = present(entry.storage.properties))))
    // What a session catalog checks first would refuse to drop a column.
    catalog.externalCatalog.alterTableDataSchema(entry.database, entry.identifier.table, columns)
    session.catalog.refreshTable(entry.identifier.quotedString)
  }
}
