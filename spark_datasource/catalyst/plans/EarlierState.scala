package org.apache.spark.sql.projseg

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan, Subquery}
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.command.ExplainCommand

/** Which statements may be answered of an earlier state of all their tables (`maxStaleness`). */
private object EarlierState {
  private val ofStreams = "sql.streaming.queryId"

  /**
   * How many projseg tables a statement reads, each at a version that nobody chose; 0 if none may
   * be of an earlier state.
   */
  def sources(plan: LogicalPlan, session: SparkSession): Int = {
    val tables = plan.collectLeaves().collect { case RowsOf(table) => table }
    val isPlain = plan match {
      case _: Subquery => false
      case _ =>
        !plan.isStreaming && !plan.exists(one =>
          one.isInstanceOf[Command] || one.expressions.exists(SubqueryExpression.hasSubquery))
    }
    if (isPlain && tables.forall(one => one.isPinned && !one.isNumbered) && !isOfWrite(session)) tables.size else 0
  }

  /** Whether a command or a stream asks, which may write what it is answered. */
  private def isOfWrite(session: SparkSession): Boolean = {
    val context = session.sparkContext
    context.getLocalProperty(ofStreams) != null ||
    Seq(SQLExecution.EXECUTION_ID_KEY, SQLExecution.EXECUTION_ROOT_ID_KEY)
      .flatMap(key => Option(context.getLocalProperty(key)))
      .flatMap(id => Option(SQLExecution.getQueryExecution(id.toLong)))
      .exists(_.logical match {
        case _: ExplainCommand => false
        case other => other.isInstanceOf[Command]
      })
  }
}
