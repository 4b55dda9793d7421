package org.apache.spark.sql.projseg

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.plans.logical.statsEstimation.EstimationUtils
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition, UnknownPartitioning}
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan, SparkStrategy, SQLExecution}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * Rows that the engine answered while the statement was planned; `summary` says from what, and `read`, which rows of a
 * table they are, if they are its columns.
 */
case class ProjsegAnswer(
    output: Seq[Attribute], rows: PackedRows, summary: PlanSummary, read: Option[ReadRows] = None)
    extends LeafNode with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics =
    Statistics(EstimationUtils.getSizePerRow(output) * rows.size.max(1), Some(rows.size))
  override def maxRows: Option[Long] = Some(rows.size)
  override protected def stringArgs: Iterator[Any] = Iterator(output, summary.line)

  /** The values of expressions over these rows, each of which is computed here. */
  def evaluated(outputs: Seq[NamedExpression]): ProjsegAnswer = {
    val values = outputs.map { case Alias(value, _) => value; case other => other }
    val projected = if (values == output) rows else PackedRows.of(rows.passing.map(projection(values)), values.size)
    ProjsegAnswer(outputs.map(_.toAttribute), projected, summary)
  }

  /** Columns are moved by code that is kept for their types; for other values, code would be compiled each time. */
  private def projection(values: Seq[Expression]): InternalRow => UnsafeRow =
    if (values.forall(_.isInstanceOf[Attribute])) {
      val moved = PackedRows.projection(BindReferences.bindReferences(values, output), rows.size)
      row => moved(row)
    } else {
      val project = new InterpretedProjection(values, output)
      val packed = PackedRows.projection(PackedRows.places(values.map(_.dataType)), rows.size)
      row => packed(project(row))
    }
}

object ProjsegAnswer {
  /** The rows of a reply, which are of these columns; `note` says why they are no more than that. */
  def of(columns: Seq[Attribute], reply: Reply, how: String, note: Option[Refusal] = None): ProjsegAnswer = {
    val schema = StructType(columns.map(one => StructField(one.name, one.dataType, one.nullable)))
    val summary = PlanSummary.of(reply.content).and(note)
    ProjsegAnswer(columns, reply.packed(schema), summary.copy(line = s"${how}from ${summary.line}"))
  }
}

/** Runs a `ProjsegAnswer`. Its rows are in the partitions of its RDD, and not in the plan that tasks are sent. */
case class ProjsegAnswerExec(output: Seq[Attribute], @transient rows: PackedRows, summary: PlanSummary)
    extends LeafExecNode {
  override lazy val metrics: Map[String, SQLMetric] =
    PlanSummary.descriptions.map { case (name, words) => name -> SQLMetrics.createMetric(sparkContext, words) } ++ Map(
      "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
      PlanSummary.Milliseconds -> SQLMetrics.createTimingMetric(sparkContext, "time of the engine"))

  /** The rows, whose figures Spark's UI shows. */
  private def answered: PackedRows = {
    (summary.figures + ("numOutputRows" -> rows.size.toLong))
      .foreach { case (name, value) => metrics(name).set(value) }
    SQLMetrics.postDriverMetricUpdates(
      sparkContext, sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY), metrics.values.toSeq)
    rows
  }

  /** As many as Spark would leave of an aggregate's: none is smaller than its setting says, but for a single one. */
  @transient private lazy val partCount: Int = {
    val least = conf.getConf(SQLConf.COALESCE_PARTITIONS_MIN_PARTITION_SIZE).max(1)
    (rows.byteCount / least).max(1).min(session.leafNodeDefaultParallelism).min(rows.size).toInt
  }

  override def outputPartitioning: Partitioning =
    if (partCount == 1) SinglePartition else UnknownPartitioning(partCount)

  override protected def doExecute(): RDD[InternalRow] =
    if (answered.size == 0) sparkContext.emptyRDD
    else sparkContext.parallelize(rows.parts(partCount), partCount).mapPartitionsInternal(_.flatMap(_.passing))
  /** Equal rows are exchanged once, however long each took the engine. */
  override protected def doCanonicalize(): SparkPlan =
    if (summary == PlanSummary.Empty) super.doCanonicalize() else copy(summary = PlanSummary.Empty).canonicalized

  override def executeCollect(): Array[InternalRow] = answered.rows.toArray
  /** What is broadcast is here already, and needs no job. */
  private[spark] override def executeCollectIterator(): (Long, Iterator[InternalRow]) = {
    val found = answered
    (found.size.toLong, found.rows)
  }
  override def executeTake(limit: Int): Array[InternalRow] = answered.rows.take(limit).toArray
  override def executeTail(limit: Int): Array[InternalRow] = answered.rows.drop(rows.size - limit).toArray
  override protected def stringArgs: Iterator[Any] = Iterator(output, summary.line)
}

object PlanAnswers extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case ProjsegAnswer(output, rows, summary, _) => ProjsegAnswerExec(output, rows, summary) :: Nil
    case _ => Nil
  }
}
