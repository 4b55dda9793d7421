package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.{InnerLike, JoinType, LeftAnti, LeftOuter, LeftSemi, RightOuter}
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * A table in a tree of joins, filters and projections, of which every row stays or goes, and is
 * repeated, by itself: as the columns say that the conditions read, whatever else it holds.
 *
 * Projections are gone: what stands above them is written over the table's columns by `over`.
 */
case class JoinedTable(table: Table, aliases: AttributeMap[Expression], steps: Seq[JoinedTable.Step])
    extends PredicateHelper {
  import JoinedTable._

  val columns: AttributeSet = table.relation.outputSet

  def over(expression: Expression): Expression =
    expression.transformUp { case attribute: Attribute => aliases.getOrElse(attribute, attribute) }

  def isOfTable(expression: Expression): Boolean =
    expression.references.nonEmpty && expression.references.subsetOf(columns) &&
      expression.deterministic && !SubqueryExpression.hasSubquery(expression)

  /** The tree over another source of the table's rows, in whose columns `of` writes conditions. */
  def overSource(source: LogicalPlan, of: Expression => Expression): LogicalPlan = steps.foldLeft(source) {
    case (plan, Where(condition)) => Filter(of(condition), plan)
    case (plan, Joined(join, true)) => join.copy(left = plan, condition = join.condition.map(of))
    case (plan, Joined(join, false)) => join.copy(right = plan, condition = join.condition.map(of))
  }

  private def projected(list: Seq[NamedExpression]): JoinedTable = {
    val found = list.collect { case alias: Alias => alias.toAttribute -> over(alias.child) }
    copy(aliases = aliases ++ AttributeMap(found))
  }

  private def where(condition: Expression): JoinedTable =
    copy(steps = steps ++ splitConjunctivePredicates(over(condition)).map(Where(_)))

  private def joined(join: Join, isLeft: Boolean): JoinedTable =
    copy(steps = steps :+ Joined(join.copy(condition = join.condition.map(over)), isLeft))
}

object JoinedTable {
  sealed trait Step
  case class Where(condition: Expression) extends Step
  case class Joined(join: Join, isLeft: Boolean) extends Step

  /** The tables of a tree that are such. */
  def in(plan: LogicalPlan): Seq[JoinedTable] = plan match {
    case Table(table) => Seq(JoinedTable(table, AttributeMap.empty[Expression], Nil))
    case Project(list, child) if list.forall(isPlain) => in(child).map(_.projected(list))
    case Filter(condition, child) if isPlain(condition) => in(child).map(_.where(condition))
    case join: Join if join.condition.forall(isPlain) =>
      val left = if (keepsLeft(join.joinType)) in(join.left).map(_.joined(join, isLeft = true)) else Nil
      val right = if (keepsRight(join.joinType)) in(join.right).map(_.joined(join, isLeft = false)) else Nil
      left ++ right
    case _ => Nil
  }

  def keepsLeft(joinType: JoinType): Boolean = joinType match {
    case _: InnerLike | LeftOuter | LeftSemi | LeftAnti => true
    case _ => false
  }

  def keepsRight(joinType: JoinType): Boolean = joinType match {
    case _: InnerLike | RightOuter => true
    case _ => false
  }

  /** A subquery may be asked of each row, but not with the row's own values. */
  private def isPlain(expression: Expression): Boolean = expression.deterministic &&
    !expression.exists { case subquery: SubqueryExpression => subquery.children.nonEmpty; case _ => false }
}
