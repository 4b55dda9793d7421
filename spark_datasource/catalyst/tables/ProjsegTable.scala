package org.apache.spark.sql.projseg

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, SupportsRead, SupportsWrite, Table => CatalogTable}
import org.apache.spark.sql.connector.catalog.{TableCapability, TableProvider}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, LogicalWriteInfoImpl, WriteBuilder}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Utils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A table that knows where it lies and what it declares, which Spark's table of a Python source does not.
 *
 * @param declared options of a write that makes the table, where the write gives no others
 */
class ProjsegTable(
    title: String, val location: String, at: Option[Long], val structure: StructType,
    known: Map[String, String], val declared: Map[String, String] = Map.empty)
    extends CatalogTable with SupportsRead with SupportsWrite {
  override def name(): String = title
  override def schema(): StructType = structure
  override def columns(): Array[Column] = CatalogV2Util.structTypeToV2Columns(structure)
  override def properties(): util.Map[String, String] = known.asJava
  override def capabilities(): util.Set[TableCapability] =
    util.EnumSet.of(
      TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE,
      TableCapability.MICRO_BATCH_READ, TableCapability.STREAMING_WRITE)

  /** What says to the source which table is meant; nothing that a statement says comes before it. */
  def place: Map[String, String] = Map("path" -> location) ++ at.map("versionAsOf" -> _.toString)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    source.asInstanceOf[SupportsRead].newScanBuilder(placed(options, Map.empty))

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder =
    source.asInstanceOf[SupportsWrite].newWriteBuilder(
      LogicalWriteInfoImpl(info.queryId, info.schema, placed(info.options, declared)))

  private def placed(options: CaseInsensitiveStringMap, others: Map[String, String]): CaseInsensitiveStringMap = {
    val given = options.asCaseSensitiveMap().asScala.toMap
    val added = others.filterNot { case (name, _) => options.containsKey(name) }
    new CaseInsensitiveStringMap((ProjsegTable.without(given, place.keySet) ++ added ++ place).asJava)
  }

  /** The same with other columns, which a write adds. */
  def withColumns(columns: StructType): ProjsegTable = new ProjsegTable(title, location, at, columns, known, declared)

  /** A source for each scan, as Spark keeps the reader of the first one on it. */
  private def source: CatalogTable =
    Sources.table(DeclaredColumns.read(structure), util.Collections.emptyMap[String, String]())
}

/** Spark's own side of the source that is written in Python. */
object Sources {
  /** A new provider, as each keeps what its first table was made from. */
  def provider: TableProvider = DataSourceV2Utils.getTableProvider("projseg", SQLConf.get).get

  def table(columns: StructType, options: util.Map[String, String]): CatalogTable =
    provider.getTable(columns, Array.empty, options)
}

object ProjsegTable {
  /** Options but for those of some names, in whatever case. */
  def without(options: Map[String, String], names: Set[String]): Map[String, String] =
    options.filterNot { case (name, _) => names.exists(_.equalsIgnoreCase(name)) }
}
