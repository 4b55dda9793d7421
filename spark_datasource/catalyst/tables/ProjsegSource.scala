package org.apache.spark.sql.projseg

import java.util

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, Table => CatalogTable}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.{Batch, InputPartition, PartitionReader, PartitionReaderFactory, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.SupportsPushDownFilters
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.LogicalWriteInfoImpl
import org.apache.spark.sql.connector.write.streaming.StreamingWrite
import org.apache.spark.sql.execution.datasources.v2.python.{PythonDataSourceV2, PythonTable}
import org.apache.spark.sql.internal.connector.SupportsMetadata
import org.apache.spark.sql.sources.{DataSourceRegister, Filter}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * The source that is written in Python, found as a service of the jar: Spark finds those of Python only where the
 * calling thread has a session of its own, which it has not after an interrupted call. What the source refuses, while
 * it plans or in a task, is told by its own words alone.
 */
class ProjsegSource extends PythonDataSourceV2 with DataSourceRegister {
  override def shortName(): String = ProjsegSource.Name

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = OwnWords.of(super.inferSchema(options))

  override def getTable(
      columns: StructType, partitions: Array[Transform], properties: util.Map[String, String]): CatalogTable =
    new SourceTable(this, columns)
}

object ProjsegSource {
  val Name = "projseg"
}

/** A table of the source, which stores CHAR and VARCHAR as texts. */
private[projseg] class SourceTable(source: ProjsegSource, declared: StructType)
    extends PythonTable(source, ProjsegSource.Name, DeclaredColumns.asTexts(declared)) {
  override def schema(): StructType = declared
  override def columns(): Array[Column] = CatalogV2Util.structTypeToV2Columns(declared)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = {
    lazy val first = StructType(source.inferSchema(options).take(1))
    super.newScanBuilder(options) match {
      case below: SupportsPushDownFilters => new FilteredScanBuilder(below)
      // Releases before 4.1 count no rows of no column.
      case _ if declared.isEmpty && first.nonEmpty => new SourceTable(source, first).newScanBuilder(options)
      case below => new SourceScanBuilder(below)
    }
  }

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder =
    new SourceWriteBuilder(super.newWriteBuilder(
      LogicalWriteInfoImpl(info.queryId, DeclaredColumns.asTexts(info.schema), info.options))
        .asInstanceOf[WriteBuilder with SupportsTruncate])
}

private[projseg] object OwnWords {
  private val deliberate = """(?s).*(projseg\.errors\.\w+: (\[(PROJSEG_\w+)\] [^\n]*)).*""".r

  /** What `work` returns; an error that projseg raised in Python becomes one of its own words. */
  def of[T](work: => T): T = try work catch { case NonFatal(error) => throw in(error).getOrElse(error) }

  private def in(error: Throwable): Option[Throwable] = error.getMessage match {
    case deliberate(_, _, "PROJSEG_INTERNAL") | null => None
    case deliberate(whole, line, _) =>
      val told = new ProjsegError(line.trim, whole.trim)
      told.initCause(error)
      Some(told)
    case _ => None
  }
}

// ---- reads

private class SourceScanBuilder(below: ScanBuilder) extends ScanBuilder {
  override def build(): Scan = new SourceScan(OwnWords.of(below.build()))
}

private class FilteredScanBuilder(below: SupportsPushDownFilters)
    extends SourceScanBuilder(below) with SupportsPushDownFilters {
  override def pushFilters(filters: Array[Filter]): Array[Filter] = OwnWords.of(below.pushFilters(filters))
  override def pushedFilters(): Array[Filter] = below.pushedFilters()
}

private class SourceScan(below: Scan) extends Scan with SupportsMetadata {
  override def getMetaData(): Map[String, String] = below match {
    case described: SupportsMetadata => described.getMetaData()
    case _ => Map.empty
  }
  override def description(): String = below.description()
  override def readSchema(): StructType = below.readSchema()
  override def columnarSupportMode(): Scan.ColumnarSupportMode = below.columnarSupportMode()
  override def supportedCustomMetrics(): Array[CustomMetric] = below.supportedCustomMetrics()
  override def reportDriverMetrics(): Array[CustomTaskMetric] = below.reportDriverMetrics()
  override def toMicroBatchStream(checkpoint: String): MicroBatchStream = below.toMicroBatchStream(checkpoint)
  override def toBatch: Batch = {
    val batch = OwnWords.of(below.toBatch)
    new Batch {
      override def planInputPartitions(): Array[InputPartition] = OwnWords.of(batch.planInputPartitions())
      override def createReaderFactory(): PartitionReaderFactory =
        new SourceReaderFactory(OwnWords.of(batch.createReaderFactory()))
    }
  }
}

private class SourceReaderFactory(below: PartitionReaderFactory) extends PartitionReaderFactory {
  override def supportColumnarReads(partition: InputPartition): Boolean = below.supportColumnarReads(partition)
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new SourceReader(below.createReader(partition))
  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    new SourceReader(below.createColumnarReader(partition))
}

private class SourceReader[Rows](below: => PartitionReader[Rows]) extends PartitionReader[Rows] {
  private val reader = OwnWords.of(below)
  override def next(): Boolean = OwnWords.of(reader.next())
  override def get(): Rows = reader.get()
  override def close(): Unit = reader.close()
  override def currentMetricsValues(): Array[CustomTaskMetric] = reader.currentMetricsValues()
}

// ---- writes

private class SourceWriteBuilder(below: WriteBuilder with SupportsTruncate) extends WriteBuilder with SupportsTruncate {
  override def truncate(): WriteBuilder = { below.truncate(); this }
  override def build(): Write = {
    val write = OwnWords.of(below.build())
    new Write {
      override def description(): String = write.description()
      override def toString: String = write.toString
      override def toBatch: BatchWrite = new SourceWrite(OwnWords.of(write.toBatch))
      override def toStreaming: StreamingWrite = OwnWords.of(write.toStreaming)
      override def supportedCustomMetrics(): Array[CustomMetric] = write.supportedCustomMetrics()
      override def reportDriverMetrics(): Array[CustomTaskMetric] = write.reportDriverMetrics()
    }
  }
}

private class SourceWrite(below: BatchWrite) extends BatchWrite {
  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory =
    new SourceWriterFactory(OwnWords.of(below.createBatchWriterFactory(info)))
  override def useCommitCoordinator(): Boolean = below.useCommitCoordinator()
  override def onDataWriterCommit(message: WriterCommitMessage): Unit = below.onDataWriterCommit(message)
  override def commit(messages: Array[WriterCommitMessage]): Unit = OwnWords.of(below.commit(messages))
  override def abort(messages: Array[WriterCommitMessage]): Unit = below.abort(messages)
  override def toString: String = below.toString
}

private class SourceWriterFactory(below: DataWriterFactory) extends DataWriterFactory {
  override def createWriter(partition: Int, task: Long): DataWriter[InternalRow] = {
    val writer = below.createWriter(partition, task)
    new DataWriter[InternalRow] {
      override def write(row: InternalRow): Unit = OwnWords.of(writer.write(row))
      override def writeAll(rows: util.Iterator[InternalRow]): Unit = OwnWords.of(writer.writeAll(rows))
      override def commit(): WriterCommitMessage = OwnWords.of(writer.commit())
      override def abort(): Unit = writer.abort()
      override def close(): Unit = writer.close()
      override def currentMetricsValues(): Array[CustomTaskMetric] = writer.currentMetricsValues()
    }
  }
}
