package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.expressions.{Alias, Expression, KnownNotNull, NamedExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical.Aggregate

/** What stands in an aggregate's place, and is to Spark as it was. */
object OutputRewriter {
  def calls(aggregate: Aggregate): Seq[AggregateExpression] = aggregate.aggregateExpressions
    .flatMap(_.collect { case call: AggregateExpression => call }).distinctBy(_.canonicalized)

  /** An expression that may be null only where the one that it stands for may. */
  def as(found: Expression, wanted: Expression): Expression =
    if (found.nullable && !wanted.nullable) KnownNotNull(found) else found

  /** An output under the name and identity of the one that it stands for. */
  def output(found: Expression, wanted: NamedExpression): NamedExpression = found match {
    case alias: Alias => alias
    case other => Alias(other, wanted.name)(wanted.exprId, wanted.qualifier)
  }
}
