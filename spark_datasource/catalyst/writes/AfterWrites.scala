package org.apache.spark.sql.projseg

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.plans.logical.{AppendData, LogicalPlan, OverwriteByExpression}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.datasources.v2.{AppendDataExec, DataSourceV2Relation, OverwriteByExpressionExec}

/** What is done once a write to a projseg table is committed; what goes wrong then fails no write. */
abstract class AfterWrites extends ColumnarRule with Logging {
  /** What follows a write, if something does. */
  protected def after(write: LogicalPlan): Option[() => Unit]

  override def preColumnarTransitions: Rule[SparkPlan] = new Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = plan match {
      case write: AppendDataExec => followed(write, write.refreshCache)(after => write.copy(refreshCache = after))
      case write: OverwriteByExpressionExec =>
        followed(write, write.refreshCache)(after => write.copy(refreshCache = after))
      case other => other
    }
  }

  private def followed(write: SparkPlan, before: () => Unit)(changed: (() => Unit) => SparkPlan): SparkPlan =
    write.logicalLink.flatMap(after).map { next =>
      val made = changed { () =>
        before()
        try next() catch { case NonFatal(error) => warn(error.getMessage) }
      }
      made.copyTagsFrom(write)
      made
    }.getOrElse(write)

  protected def warn(what: String): Unit = logWarning(s"a write was committed; what follows it failed: $what")
}

/** A write by name or path, with its target and its options. */
object V2WriteOfTable {
  def unapply(plan: LogicalPlan): Option[(DataSourceV2Relation, Map[String, String])] = (plan match {
    case write: AppendData => Some(write.table -> write.writeOptions)
    case write: OverwriteByExpression => Some(write.table -> write.writeOptions)
    case _ => None
  }).collect { case (relation: DataSourceV2Relation, options) if Table.isProjseg(relation) => relation -> options }
}
