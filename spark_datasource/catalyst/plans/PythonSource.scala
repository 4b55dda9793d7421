package org.apache.spark.sql.projseg

import java.util
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import org.apache.spark.{JobArtifactSet, TaskContext}
import org.apache.spark.api.python.{ChainedPythonFunctions, PythonFunction}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.NamedExpression
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.{Batch, InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.execution.datasources.v2.python.{PythonCustomMetric, PythonDataSourceReadInfo, PythonInputPartition, UserDefinedPythonDataSource}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarBatch}

import org.apache.arrow.vector.ValueVector
import org.apache.arrow.vector.complex.StructVector

/**
 * One read of projseg's Python source. Two are equal if they return the same rows, so that Spark runs one of them.
 *
 * @param pin what table the path had when the statement was analysed, and which version of it was the newest
 */
class PythonSource private (
    val options: Map[String, String], val pin: Option[String], val python: UserDefinedPythonDataSource) {
  private val created =
    python.createDataSourceInPython("projseg", new CaseInsensitiveStringMap(options.asJava), None)

  val schema: StructType = created.schema

  /** What each task reads; it is planned when the statement runs, and once. */
  lazy val planned: PythonDataSourceReadInfo = OwnWords.of(ArrowRunner.planned(python, created, schema))

  def metrics: Array[CustomMetric] = python.createPythonMetrics()

  override def equals(other: Any): Boolean = other match {
    case source: PythonSource => source.options == options && source.pin == pin
    case _ => false
  }
  override def hashCode(): Int = (options, pin).hashCode
}

object PythonSource {
  private val keptMost = 64
  private val keptNanos = TimeUnit.SECONDS.toNanos(30)

  /** Sources that statements of a session may share, with the time at which each was made. */
  private val kept =
    new util.LinkedHashMap[(SparkSession, Map[String, String], String), (PythonSource, Long)](16, 0.75f, true) {
    override def removeEldestEntry(
        eldest: util.Map.Entry[(SparkSession, Map[String, String], String), (
            PythonSource, Long)]): Boolean = size > keptMost
  }

  /**
   * The source of these options. A pinned version never changes, so what was planned for it is
   * planned once for a statement.
   */
  def of(session: SparkSession, options: Map[String, String], pin: Option[String]): PythonSource = {
    def made = new PythonSource(options, pin, session.sessionState.dataSourceManager.lookupDataSource("projseg"))
    pin.fold(made) { of =>
      val key = (session, options, of)
      val now = System.nanoTime()
      val found =
        kept.synchronized(Option(kept.get(key))).collect { case (source, since) if now - since < keptNanos => source }
      found.getOrElse {
        val source = made
        kept.synchronized(kept.put(key, source -> now))
        source
      }
    }
  }
}

/** Reads of a source as columns: Spark reads values where Arrow has them, and makes rows of what it uses alone. */
class ColumnarBatches(val source: PythonSource) extends Batch {
  private val artifacts = JobArtifactSet.getCurrentJobArtifactState.map(_.uuid)
  private val loggedSession = ArrowRunner.loggedSession

  override def planInputPartitions(): Array[InputPartition] =
    source.planned.partitions.zipWithIndex.map { case (part, index) => PythonInputPartition(index, part) }.toArray

  override def createReaderFactory(): PartitionReaderFactory =
    new ColumnarReads(source.python, source.planned.func, source.schema.size, artifacts, loggedSession)

  override def equals(other: Any): Boolean = other match {
    case batches: ColumnarBatches => batches.source == source
    case _ => false
  }
  override def hashCode(): Int = source.hashCode
}

private class ColumnarReads(
    python: UserDefinedPythonDataSource, read: Array[Byte], width: Int, artifacts: Option[String],
    loggedSession: Option[String]) extends PartitionReaderFactory {
  override def supportColumnarReads(partition: InputPartition): Boolean = true

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    throw new UnsupportedOperationException("projseg reads columns")

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    new SourceReader(new ColumnarReader(
      python, read, width, artifacts, loggedSession, partition.asInstanceOf[PythonInputPartition].pickedPartition))
}

private class ColumnarReader(
    python: UserDefinedPythonDataSource, read: Array[Byte], width: Int, artifacts: Option[String],
    loggedSession: Option[String], partition: Array[Byte]) extends PartitionReader[ColumnarBatch] {
  // Spark's own are shared by all tasks of a process.
  private val counts =
    PythonCustomMetric.pythonMetrics.map { case (name, one) => name -> new SQLMetric(one.metricType, -1) }
  private val structs = {
    val function: PythonFunction = python.createPythonFunction(read)
    val runner = ArrowRunner(
      Seq(ChainedPythonFunctions(Seq(function)) -> NamedExpression.newExprId.id), counts, artifacts, loggedSession)
    val context = TaskContext.get()
    runner.compute(Iterator(Iterator.single(InternalRow(InternalRow(partition)))), context.partitionId(), context)
  }

  override def next(): Boolean = structs.hasNext

  override def get(): ColumnarBatch = {
    val batch = structs.next()
    val struct = batch.column(0).asInstanceOf[ArrowColumnVector].getValueVector.asInstanceOf[StructVector]
    val columns = Array.tabulate[ColumnVector](width)(index => new BorrowedColumn(struct.getVectorById(index)))
    new ColumnarBatch(columns, batch.numRows())
  }

  override def close(): Unit = ()

  override def currentMetricsValues(): Array[CustomTaskMetric] =
    python.createPythonTaskMetrics(counts.map { case (name, one) => name -> one.value })
}

/** A column of a batch whose memory is the runner's, which reads the next batch into it. */
private class BorrowedColumn(vector: ValueVector) extends ArrowColumnVector(vector) {
  override def close(): Unit = ()
  override def closeIfFreeable(): Unit = ()
}
