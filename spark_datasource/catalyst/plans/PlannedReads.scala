package org.apache.spark.sql.projseg

import java.util
import java.util.OptionalLong

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.{AnalysisException, SparkSession, classic}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.logical.statsEstimation.EstimationUtils
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, Table => CatalogTable, TableCapability}
import org.apache.spark.sql.connector.read.{Batch, Scan, Statistics, SupportsReportStatistics}
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
import org.apache.spark.sql.internal.connector.SupportsMetadata
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** What a read touches: in a line, the most rows and bytes, if they are known, and figures for Spark's UI. */
case class PlanSummary(line: String, most: Option[(Long, Long)], figures: Map[String, Long] = Map.empty) {
  def and(refusal: Option[Refusal]): PlanSummary = copy(line = (line +: refusal.map(_.toString).toSeq).mkString("; "))
}

object PlanSummary {
  val Empty: PlanSummary = PlanSummary("", None)

  val OfProjections = "projectionSegments"
  val OfViews = "viewParts"
  val OfRows = "baseSegments"
  val Milliseconds = "engineTime"

  /** What figures are, by their names. */
  val descriptions: Map[String, String] = Map(
    OfViews -> "parts of views that answer", OfProjections -> "segments answered from projections",
    OfRows -> "segments answered from base rows")

  def of(reply: JsonNode): PlanSummary = {
    val bySource = reply.get("sources").properties().asScala.toSeq.groupMapReduce(_.getKey match {
      case "base rows" => OfRows
      case name if name.startsWith("view:") => OfViews
      case _ => OfProjections
    })(_.getValue.asLong)(_ + _)
    val figures =
      descriptions.keys.toSeq.map(name => name -> bySource.getOrElse(name, 0L)) ++
      Option(reply.get("milliseconds")).map(Milliseconds -> _.asLong)
    val bytes = Option(reply.get("returned_bytes")).getOrElse(reply.get("bytes")).asLong
    PlanSummary(reply.get("plan").asText, Some(reply.get("rows").asLong -> bytes), figures.toMap)
  }
}

/** Reads of projseg tables by Spark's tasks. */
class PlannedReads(session: SparkSession, settings: Settings, zone: String) {
  /** How many tasks run at once, which Spark tells no source that is written in Python. */
  private def parallelism: String = session.asInstanceOf[classic.SparkSession].leafNodeDefaultParallelism.toString

  /** A query for groups of a table, or of several that are joined, to be completed. */
  def groups(tables: Seq[Table], mayBeOld: Boolean = false): ObjectNode = {
    val context = HintedContext.context(settings.context, tables.map(_.options).reverse.reduce(_ ++ _))
    query(if (mayBeOld) context else HintedContext.ofPresent(context))
  }

  /** A query for rows of a table, to be completed. No setting about projections concerns it. */
  def rows(table: Table): ObjectNode =
    query(HintedContext.ofRows(HintedContext.context(settings.context, table.options)))

  private def query(context: Map[String, String]): ObjectNode = {
    val made = Engine.json.createObjectNode()
    val said = made.put("projseg_query", 1).putObject("context").put("timezone", zone)
    context.foreach { case (name, value) => said.put(name, value) }
    made
  }

  /**
   * What Spark's tasks read of a table for a query, unless the source refuses: then Spark reads as
   * it would, or says why not.
   */
  def scan(table: Table, query: JsonNode, summary: PlanSummary,
      rows: Option[ReadRows] = None): Either[Refusal, LogicalPlan] = {
    val options = table.storage.map { case (key, value) => Table.Storage + key -> value } ++
      table.version.map("versionAsOf" -> _.toString) ++
        Option.when(table.isNumbered)(ChangedTable.Numbered -> "true") ++
      Map("path" -> table.location, "query" -> Engine.json.writeValueAsString(query),
        "parallelism" -> table.parallelism.getOrElse(parallelism))
    try {
      val source = PythonSource.of(session.asInstanceOf[classic.SparkSession], options, table.options.get(Table.Pinned))
      val relation =
        DataSourceV2Relation.create(new ReadTable(source), None, None, new CaseInsensitiveStringMap(options.asJava))
      Right(DataSourceV2ScanRelation(relation, new PlannedScan(source, summary, rows), relation.output))
    } catch { case error: AnalysisException => Left(Refusal("the source refused", error.getMessage)) }
  }
}

/** The rows of a table for which conditions over its columns are true: what a scan of them stands for. */
case class ReadRows(table: Table, conditions: Seq[Expression])

/** What is read by a scan that is planned; it is never read in another way. */
class ReadTable(val source: PythonSource) extends CatalogTable {
  override def name(): String = "projseg"
  override def schema(): StructType = source.schema
  override def columns(): Array[Column] = CatalogV2Util.structTypeToV2Columns(source.schema)
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ)
  override def equals(other: Any): Boolean = other match {
    case table: ReadTable => table.source == source
    case _ => false
  }
  override def hashCode(): Int = source.hashCode
}

/** A scan that tells in EXPLAIN and in the SQL tab what it reads, and how much at most. */
class PlannedScan(val source: PythonSource, summary: PlanSummary, val rows: Option[ReadRows])
    extends SupportsReportStatistics with SupportsMetadata {
  override def description(): String = summary.line
  override def getMetaData(): Map[String, String] = Map("Projseg" -> summary.line)
  override def estimateStatistics(): Statistics = new Statistics {
    override def sizeInBytes(): OptionalLong = summary.most.map { case (rows, bytes) =>
      OptionalLong.of((EstimationUtils.getSizePerRow(toAttributes(source.schema)) * rows / PlannedScan.Compressed)
          .max(bytes).max(1).min(Long.MaxValue).toLong)
    }.getOrElse(OptionalLong.empty())
    override def numRows(): OptionalLong =
      summary.most.map { case (rows, _) => OptionalLong.of(rows) }.getOrElse(OptionalLong.empty())
  }
  override def readSchema(): StructType = source.schema
  override lazy val toBatch: Batch = new ColumnarBatches(source)
  override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.SUPPORTED
  override def supportedCustomMetrics(): Array[CustomMetric] =
    source.metrics ++ PlanSummary.descriptions.map { case (name, words) => new Figure(name, words) }
  override def reportDriverMetrics(): Array[CustomTaskMetric] =
    summary.figures.filter { case (name, _) => PlanSummary.descriptions.contains(name) }.map {
      case (figure, count) => new CustomTaskMetric {
        override def name(): String = figure
        override def value(): Long = count
      }
    }.toArray
  override def equals(other: Any): Boolean = other match {
    case scan: PlannedScan => scan.source == source
    case _ => false
  }
  override def hashCode(): Int = source.hashCode
}

object PlannedScan {
  /** How many times smaller than its rows Spark's estimate of a file is taken to be at most. */
  private val Compressed = 8
}

/** A figure of a scan. Spark's UI makes one without a name, to add values up. */
class Figure(title: String, words: String) extends CustomSumMetric {
  def this() = this("", "")
  override def name(): String = title
  override def description(): String = words
}
