package org.apache.spark.sql.projseg

import java.util

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{Identifier, SupportsRead, Table => CatalogTable, TableCapability}
import org.apache.spark.sql.connector.read.{Batch, InputPartition, PartitionReader, PartitionReaderFactory, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.{SupportsPushDownFilters, SupportsPushDownRequiredColumns}
import org.apache.spark.sql.sources.{And, EqualNullSafe, EqualTo, Filter, In, Or}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A view of `information_schema`: the driver asks the catalog for pages, and tasks get one each. */
private class DescribedRows(catalog: ProjsegCatalog, named: Identifier, title: String, structure: StructType)
    extends CatalogTable with SupportsRead {
  override def name(): String = title
  override def schema(): StructType = structure
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ)
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    new DescribedScan(catalog, named, title, structure)
}

private class DescribedScan(catalog: ProjsegCatalog, named: Identifier, title: String, whole: StructType)
    extends ScanBuilder with SupportsPushDownFilters with SupportsPushDownRequiredColumns with Scan with Batch {
  private var columns = whole
  private var conditions: Array[Filter] = Array.empty

  /** Equalities of names say which definitions are read; Spark evaluates every condition again. */
  override def pushFilters(filters: Array[Filter]): Array[Filter] = { conditions = filters; filters }
  override def pushedFilters(): Array[Filter] = Array.empty
  /** Without a column there would be no rows to count. */
  override def pruneColumns(wanted: StructType): Unit = columns =
    if (wanted.isEmpty) StructType(whole.take(1)) else wanted
  override def build(): Scan = this
  override def readSchema(): StructType = columns
  override def description(): String = title
  override def toBatch: Batch = this

  /** Pages as Spark keeps blocks: in memory as far as there is room for them, else on the driver's disk. */
  private lazy val pages: Array[InputPartition] = {
    val context = SparkSession.active.sparkContext
    def page(after: JsonNode): (InputPartition, JsonNode) = {
      val reply = catalog.viewPage(named, columns.fieldNames.toSeq, among("table_schema"), among("table_name"), after)
      DescribedPage(context.broadcast(reply.rows)) -> reply.content.get("result")
    }
    Iterator.iterate(page(null)) { case (_, last) => if (last.isNull) null else page(last) }
      .takeWhile(_ != null).map(_._1).toArray
  }
  override def planInputPartitions(): Array[InputPartition] = pages
  override def createReaderFactory(): PartitionReaderFactory = DescribedReaders(columns)

  /** The only names that all conditions let through; None: any. */
  private def among(column: String): Option[Set[String]] =
    conditions.toSeq.flatMap(names(_, column)).reduceOption(_ & _)

  private def names(condition: Filter, column: String): Option[Set[String]] = condition match {
    case EqualTo(`column`, value: String) => Some(Set(value))
    case EqualNullSafe(`column`, value: String) => Some(Set(value))
    case In(`column`, values) => Some(values.toSeq.collect { case value: String => value }.toSet)
    case And(left, right) => Seq(names(left, column), names(right, column)).flatten.reduceOption(_ & _)
    case Or(left, right) => for (one <- names(left, column); other <- names(right, column)) yield one | other
    case _ => None
  }
}

private case class DescribedPage(rows: Broadcast[Array[Byte]]) extends InputPartition

private case class DescribedReaders(columns: StructType) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new PartitionReader[InternalRow] {
    private val rows = PackedRows.ofArrow(partition.asInstanceOf[DescribedPage].rows.value, columns).rows
    private var row: InternalRow = _
    override def next(): Boolean = { val has = rows.hasNext; if (has) row = rows.next(); has }
    override def get(): InternalRow = row
    override def close(): Unit = ()
  }
}
