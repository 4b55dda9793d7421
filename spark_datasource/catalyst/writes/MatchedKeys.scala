package org.apache.spark.sql.projseg

import scala.util.Try

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.{Inner, RightOuter}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{DataType, DoubleType, FloatType}

/**
 * Reads of a MERGE's target only rows that may match, where its source is small: the source is computed once,
 * and its keys are a condition of the target. Rows without a match are of no use there.
 */
private[projseg] object MatchedKeys extends PredicateHelper {
  /** Rows of a source that the driver holds. */
  private val rowsMax = 20000
  /** Keys that are listed; of more, only the least and the greatest. */
  private val keysMax = 1000

  def narrowed(rows: LogicalPlan, session: ClassicSession): LogicalPlan = rows.transformUp {
    case join @ Join(target, source, Inner | RightOuter, Some(condition), _) if target.exists(isTarget) =>
      held(source, session).map { known =>
        val bounds = splitConjunctivePredicates(condition).flatMap(bound(_, target, known))
        val narrow =
          target.transformUp { case read if isTarget(read) => bounds.reduceOption(And).map(Filter(_, read))
              .getOrElse(read) }
        join.copy(left = narrow, right = known)
      }.getOrElse(join)
  }

  private def isTarget(plan: LogicalPlan): Boolean = plan match {
    case read: DataSourceV2Relation => read.output.exists(_.name == ChangedTable.Number)
    case _ => false
  }

  /** The rows of a source, if they are few, and the driver may hold them. */
  private def held(source: LogicalPlan, session: ClassicSession): Option[LocalRelation] =
    try {
      val frame = Dataset.ofRows(session, Limit(Literal(rowsMax + 1), source))
      val rows = frame.queryExecution.executedPlan.executeCollect()
      if (rows.length > rowsMax) None else Some(LocalRelation(source.output, rows.toSeq))
    } catch { case error: SparkException if SegmentJobs.messages(error).contains("maxResultSize") => None }

  private def bound(condition: Expression, target: LogicalPlan, known: LocalRelation): Option[Expression] =
    condition match {
    case EqualTo(left, right) => Seq(left -> right, right -> left).collectFirst {
      case (one, key) if isOver(one, target) && isOver(key, known) && one.deterministic && key.deterministic =>
        Try(among(one, key, known)).toOption.flatten // an error is Spark's to raise
    }.flatten
    case _ => None
  }

  private def isOver(expression: Expression, plan: LogicalPlan): Boolean =
    expression.references.nonEmpty && expression.references.subsetOf(plan.outputSet)

  private def among(one: Expression, key: Expression, known: LocalRelation): Option[Expression] = {
    val dataType = key.dataType
    val value = BindReferences.bindReference(key, known.output)
    def keys = known.data.map(row => value.eval(row): Any).filter(_ != null)
    if (!Scans.isOrdered(dataType) && !isFloating(dataType)) None
    else {
      val sorted = keys.distinct.sorted(TypeUtils.getInterpretedOrdering(dataType))
      def literal(value: Any) = Literal(value, dataType)
      Some(
        if (sorted.isEmpty) Literal.FalseLiteral
        // Two zeros are equal, but not in a set.
        else if (sorted.size <= keysMax && !isFloating(dataType)) In(one, sorted.map(literal))
        else And(GreaterThanOrEqual(one, literal(sorted.head)), LessThanOrEqual(one, literal(sorted.last))))
    }
  }

  private def isFloating(dataType: DataType): Boolean = dataType == DoubleType || dataType == FloatType
}
