package org.apache.spark.sql.projseg

import org.apache.spark.sql.connector.catalog.Identifier

/** Spark 4.0 has no summaries of tables. */
private[projseg] trait ListedTables {
  protected def summaries(namespace: Array[String]): Array[(Identifier, String)]
}
