package org.apache.spark.sql.projseg

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.plans.logical.statsEstimation.EstimationUtils
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan, SparkStrategy, SQLExecution}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types.{StructField, StructType}

/** Rows that the engine answered while the statement was planned; `summary` says from what. */
case class ProjsegAnswer(output: Seq[Attribute], rows: Seq[InternalRow], summary: PlanSummary)
    extends LeafNode with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics =
    Statistics(EstimationUtils.getSizePerRow(output) * rows.length.max(1), Some(rows.length))
  override def maxRows: Option[Long] = Some(rows.length)
  override protected def stringArgs: Iterator[Any] = Iterator(output, summary.line)
}

object ProjsegAnswer {
  /** The rows of a reply, which are of these columns; `note` says why they are no more than that. */
  def of(columns: Seq[Attribute], reply: Reply, how: String, note: Option[Refusal] = None): ProjsegAnswer = {
    val schema = StructType(columns.map(one => StructField(one.name, one.dataType, one.nullable)))
    val summary = PlanSummary.of(reply.content).and(note)
    ProjsegAnswer(columns, Engine.rowsOf(reply.rows, schema), summary.copy(line = s"${how}from ${summary.line}"))
  }
}

/** Runs a `ProjsegAnswer`. Its rows are in the partitions of its RDD, and not in the plan that tasks are sent. */
case class ProjsegAnswerExec(output: Seq[Attribute], @transient rows: Seq[InternalRow], summary: PlanSummary)
    extends LeafExecNode {
  @transient private lazy val unsafeRows = {
    val project = UnsafeProjection.create(output, output)
    rows.map(row => project(row).copy(): InternalRow).toArray
  }

  override lazy val metrics: Map[String, SQLMetric] =
    PlanSummary.descriptions.map { case (name, words) => name -> SQLMetrics.createMetric(sparkContext, words) } ++ Map(
      "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
      PlanSummary.Milliseconds -> SQLMetrics.createTimingMetric(sparkContext, "time of the engine"))

  /** The rows, whose figures Spark's UI shows. */
  private def answered: Array[InternalRow] = {
    (summary.figures + ("numOutputRows" -> unsafeRows.length.toLong))
      .foreach { case (name, value) => metrics(name).set(value) }
    SQLMetrics.postDriverMetricUpdates(
      sparkContext, sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY), metrics.values.toSeq)
    unsafeRows
  }

  override protected def doExecute(): RDD[InternalRow] =
    if (answered.isEmpty) sparkContext.emptyRDD
    else sparkContext.parallelize(unsafeRows.toSeq, math.min(unsafeRows.length, session.leafNodeDefaultParallelism))
  override def executeCollect(): Array[InternalRow] = answered
  override def executeTake(limit: Int): Array[InternalRow] = answered.take(limit)
  override def executeTail(limit: Int): Array[InternalRow] = answered.takeRight(limit)
  override protected def stringArgs: Iterator[Any] = Iterator(output, summary.line)
}

object PlanAnswers extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case ProjsegAnswer(output, rows, summary) => ProjsegAnswerExec(output, rows, summary) :: Nil
    case _ => Nil
  }
}
