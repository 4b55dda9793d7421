package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.expressions._

/** Which conditions are true of no null. */
object NullRejection {
  /** Conditions without what Spark adds: that a column is not null, where another says more of it. */
  def withoutImplied(conditions: Seq[Expression]): Seq[Expression] = {
    val rejecting = AttributeSet(conditions.flatMap(rejected))
    conditions.filter {
      case IsNotNull(column: Attribute) => !rejecting.contains(column)
      case _ => true
    }
  }

  /** The columns of which a null makes an expression null. */
  private def rejected(expression: Expression): Seq[Attribute] = expression match {
    case column: Attribute => Seq(column)
    case In(value, _) => rejected(value)
    case InSet(value, _) => rejected(value)
    case one if one.nullIntolerant => one.children.flatMap(rejected)
    case _ => Nil
  }
}
