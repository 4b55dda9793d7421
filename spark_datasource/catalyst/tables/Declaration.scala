package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column}
import org.apache.spark.sql.connector.catalog.TableCatalog._
import org.apache.spark.sql.connector.expressions.Transform

/** What a CREATE TABLE statement of a `ProjsegCatalog` declares; what the table could not keep is refused. */
private[projseg] class Declaration(
    table: String, columns: Array[Column], partitions: Array[Transform], given: Map[String, String]) {
  private def refused(what: String): Nothing = throw new UnsupportedOperationException(s"table $table: $what")

  if (partitions.nonEmpty) throw Declaration.ofPartitions(table)
  if (given.contains(PROP_LOCATION) || given.contains(PROP_EXTERNAL)) refused(
    "a table of this catalog lies in its warehouse; create it in spark_catalog to give a LOCATION")
  given.get(PROP_PROVIDER).filterNot(_.equalsIgnoreCase("projseg")).foreach(provider =>
    refused(s"this catalog has tables of projseg, not of $provider; write USING projseg, or format(\"projseg\")"))

  private val own = given.filterNot { case (name, _) =>
    name.startsWith(OPTION_PREFIX) || Set(PROP_PROVIDER, PROP_OWNER).contains(name)
  }

  /** Options of the write that makes the table. */
  val options: Map[String, String] = own.filter { case (name, _) => Declaration.isOption(name) }

  /** Properties that the table keeps for its user. */
  val free: Map[String, String] =
    own -- options.keys ++ DeclaredColumns.kept(CatalogV2Util.v2ColumnsToStructType(columns))
}

private[projseg] object Declaration {
  /** Why a table with partitions or buckets is not made. */
  def ofPartitions(table: String): Exception = ProjsegError.of(
    "PROJSEG_BAD_OPTION",
    s"table $table: projseg has no partitions or buckets; give TBLPROPERTIES ('timeColumn' = ..., " +
      "'segmentGranularity' = 'day', 'clusterBy' = ...)")

  private val options =
    Set("timecolumn", "segmentgranularity", "clusterby", "targetsegmentrows", "projections", "indexes")

  /** Whether a property of a table is an option of the write that makes it. */
  def isOption(property: String): Boolean = options.contains(property.toLowerCase)

  /** The option in which the write that makes a table gets the properties of its entry. */
  private val Properties = "projseg.properties"

  def propertiesOf(entry: CatalogTable): Map[String, String] = {
    val found = new SessionDeclaration(entry.properties).properties
    Option.when(found.nonEmpty)(Properties -> Engine.json.writeValueAsString(found.asJava)).toMap
  }

  /** The options of the write that makes the table of an entry. */
  def optionsOf(entry: CatalogTable): Map[String, String] =
    (entry.properties ++ entry.storage.properties).filter { case (name, _) => isOption(name) }
}
