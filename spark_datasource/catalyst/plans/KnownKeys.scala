package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.{Inner, JoinType, LeftOuter, LeftSemi, RightOuter}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.types._

/**
 * Passes keys that are known while planning into reads of projseg tables.
 *
 * A row of a table that is joined by an equality, or asked for with `IN (subquery)`, can only stay
 * where its key is among those of the other side. Where these are few and in the plan already, as a
 * local relation or an answer of the engine, they become a condition of the table. The join stays.
 * Rows of a table that were read while planning are such an answer if `takesReadRows`.
 */
class KnownKeys(texts: SqlTexts, takesReadRows: Boolean) extends PredicateHelper {
  // Beyond that, binding the condition costs more than it saves.
  private val keysMax = 256

  def passed(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case filter @ Filter(condition, child) =>
      splitConjunctivePredicates(condition).foldLeft[LogicalPlan](filter) {
        case (above: Filter, InSubquery(Seq(value), query)) if query.children.isEmpty =>
          keysOf(query.plan).map(keys => above.copy(child = among(above.child, value, keys))).getOrElse(above)
        case (above, _) => above
      }
    case join @ Join(left, right, joinType, Some(condition), _) =>
      splitConjunctivePredicates(condition).foldLeft(join) {
        case (above, EqualTo(one, other)) =>
          val toLeft = if (losesLeft(joinType)) passing(above.left, above.right, one, other) else None
          val toRight = if (losesRight(joinType)) passing(above.right, above.left, one, other) else None
          above.copy(left = toLeft.getOrElse(above.left), right = toRight.getOrElse(above.right))
        case (above, _) => above
      }
  }

  /** Whether rows of the left go that have no partner. */
  private def losesLeft(joinType: JoinType): Boolean = joinType match {
    case Inner | LeftSemi | RightOuter => true
    case _ => false
  }

  private def losesRight(joinType: JoinType): Boolean = joinType match {
    case Inner | LeftSemi | LeftOuter => true
    case _ => false
  }

  private def passing(to: LogicalPlan, from: LogicalPlan, one: Expression, other: Expression): Option[LogicalPlan] = {
    val sides = Seq(one -> other, other -> one).find { case (key, known) =>
      isOver(key, to) && isOver(known, from) && key.deterministic && known.deterministic
    }
    for {
      (key, known) <- sides
      keys <- keysOf(Project(Seq(Alias(known, "key")()), from))
    } yield among(to, key, keys)
  }

  private def isOver(expression: Expression, plan: LogicalPlan): Boolean =
    expression.references.nonEmpty && expression.references.subsetOf(plan.outputSet)

  /** The plan, with the tables that the key is of reading rows with these keys alone. */
  private def among(plan: LogicalPlan, key: Expression, keys: Seq[Any]): LogicalPlan =
    JoinedTable.in(plan).foldLeft(plan) { (found, joined) =>
      val value = joined.over(key)
      val condition = if (keys.isEmpty) Literal.FalseLiteral else In(value, keys.map(Literal(_, value.dataType)))
      val isKnown = joined.steps.exists {
        case JoinedTable.Where(there) => there.semanticEquals(condition)
        case _ => false
      }
      if (isKnown || !joined.isOfTable(value) || !isExact(value.dataType) || !isCertain(value, joined)) found
      else found.transformUp { case table if table eq joined.table.relation => Filter(condition, table) }
    }

  /** Whether no row that would go could have been an error before it went. */
  private def isCertain(key: Expression, joined: JoinedTable): Boolean = {
    val conditions = joined.steps.collect { case JoinedTable.Where(condition) => condition }
    val evaluated = key +: (conditions ++ joined.aliases.values).filter(_.references.subsetOf(joined.columns))
    evaluated.forall(texts.of(_).exists(!_.mayFail))
  }

  /** Whether values are equal only if they are the same. */
  private def isExact(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | TimestampType => true
    case _: DecimalType => true
    case other => other == StringType
  }

  /** The values of a plan of one column that are not null, if they are known and few. */
  private def keysOf(plan: LogicalPlan): Option[Seq[Any]] = rowsOf(plan).flatMap { rows =>
    val found = collection.mutable.LinkedHashSet[Any]()
    rows.takeWhile(_ => found.size <= keysMax).filterNot(_.isNullAt(0))
      .foreach(row => found += row.get(0, plan.output.head.dataType))
    Option.when(found.size <= keysMax)(found.toSeq)
  }

  private def rowsOf(plan: LogicalPlan): Option[Iterator[InternalRow]] = plan match {
    case answer: ProjsegAnswer if takesReadRows || answer.read.isEmpty => Some(answer.rows.rows)
    case local: LocalRelation if !local.isStreaming => Some(local.data.iterator)
    case Project(list, child) if list.forall(isCertain) =>
      val project = new InterpretedProjection(list, child.output)
      rowsOf(child).map(_.map(row => project(row).copy()))
    case Filter(condition, child) if isCertain(condition) =>
      val predicate = Predicate.createInterpreted(BindReferences.bindReference(condition, child.output))
      rowsOf(child).map(_.filter(predicate.eval))
    case _ => None
  }

  /** Whether Spark would compute the same, and without an error: columns, literals and comparisons. */
  private def isCertain(expression: Expression): Boolean = !expression.exists {
    case _: Attribute | _: Literal | _: Alias | _: And | _: Or | _: Not | _: BinaryComparison => false
    case _: IsNotNull | _: IsNull | _: In | _: InSet | _: StringPredicate => false
    case cast: Cast => !Cast.canUpCast(cast.child.dataType, cast.dataType)
    case _ => true
  }
}
