package org.apache.spark.sql.projseg

import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog, TableSummary}

/** Summaries of tables, for which Spark itself loads each. */
private[projseg] trait ListedTables extends TableCatalog {
  protected def summaries(namespace: Array[String]): Array[(Identifier, String)]

  override def listTableSummaries(namespace: Array[String]): Array[TableSummary] =
    summaries(namespace).map { case (named, kind) => TableSummary.of(named, kind) }
}
