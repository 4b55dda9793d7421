package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.types.{DecimalType, IntegralType}

/**
 * Several projseg tables that joins, filters and projections put together, in the order in which they are joined.
 *
 * @param joins how each table but the first is joined, with conditions over it and those before it
 * @param where conditions over the joined rows
 * @param aliases what projections made, over the tables' columns
 */
case class StarTree(
    tables: Vector[Table], joins: Vector[StarTree.Joined], where: Vector[Expression], aliases: AttributeMap[Expression])
    extends PredicateHelper {
  import StarTree._

  private lazy val owners: AttributeMap[Int] =
    AttributeMap(tables.zipWithIndex.flatMap { case (table, index) => table.relation.output.map(_ -> index) })

  /** A column of a table as requests name it: the first table is t0. */
  def named(column: AttributeReference): String =
    owners.get(column).map(index => s"t$index.").getOrElse("") + SqlText.quoted(column.name)

  def over(expression: Expression): Expression =
    expression.transformUp { case attribute: Attribute => aliases.getOrElse(attribute, attribute) }

  def conditions: Seq[Expression] = joins.flatMap(_.on) ++ where

  private def projected(list: Seq[NamedExpression]): StarTree = {
    val made = list.collect { case alias: Alias => alias.toAttribute -> over(alias.child) }
    copy(aliases = aliases ++ AttributeMap(made))
  }

  /** The rows for which a condition is true; those that a subquery says are a semi join. */
  private def filtered(condition: Expression): Option[StarTree] = condition match {
    case InSubquery(values, query) =>
      val pairs = values.zip(query.plan.output).map { case (value, column) => EqualTo(value, column) }
      among(query.plan, "semi", pairs ++ query.joinCond)
    case exists: Exists => among(exists.plan, "semi", exists.joinCond)
    case Not(exists: Exists) => among(exists.plan, "anti", exists.joinCond)
    case other => Some(copy(where = where :+ over(other)))
  }

  private def among(query: LogicalPlan, kind: String, on: Seq[Expression]): Option[StarTree] =
    of(distinct(query)).flatMap(joined(_, kind, on.map(withoutCasts(_))))

  private def isRenamed: Boolean = aliases.values.forall(_.isInstanceOf[Attribute])

  /** This tree, with the tables of another joined to its own. */
  private def joined(other: StarTree, kind: String, condition: Seq[Expression]): Option[StarTree] = {
    if (outputOf(tables).intersect(outputOf(other.tables)).nonEmpty) return None
    val both = copy(tables = tables ++ other.tables, aliases = aliases ++ other.aliases)
    val on = condition.map(both.over(_)).toVector
    kind match {
      case "inner" =>
        val joins = this.joins ++ (Joined("inner", Nil) +: other.joins)
        Some(both.copy(joins = joins, where = where ++ other.where ++ on))
      // Where no row matches, columns are null, and what is made of them need not be.
      case "left" if other.isRenamed && other.joins.forall(_.kind == "left") &&
          (other.joins.isEmpty || other.where.isEmpty) =>
        val isOfFirst = on.forall(_.references.subsetOf(outputOf(tables) ++ other.tables.head.relation.outputSet))
        Option.when(isOfFirst)(both.copy(joins = (joins :+ Joined("left", on ++ other.where)) ++ other.joins))
      case "semi" | "anti" if other.joins.isEmpty => Some(both.copy(joins = joins :+ Joined(kind, on ++ other.where)))
      case _ => None
    }
  }

  /** The same with each condition where it says most, and without those that others imply. */
  private def settled: StarTree = {
    val lasts = NullRejection.withoutImplied(where).map(one => one -> owned(one).maxOption)
    def isInner(index: Int): Boolean = index > 0 && joins(index - 1).kind == "inner"
    val places = lasts.map { case (one, last) =>
      val place = if (last.contains(0)) 1 else last.getOrElse(0)
      one -> (if (isInner(place)) place else 0)
    }
    val keyed = (where ++ joins.filter(_.kind == "semi").flatMap(_.on)).flatMap(sides)
    def isKept(one: Expression): Boolean = !isImplied(one, keyed)
    copy(
      joins = joins.zipWithIndex.map {
        case (Joined("inner", on), index) =>
          Joined("inner", on ++ places.collect { case (one, place) if place == index + 1 && isKept(one) => one })
        case (Joined(kind, on), index) => Joined(kind, withoutKnown(on, tables(index + 1)))
      },
      where = places.collect { case (one, 0) if isKept(one) => one }.toVector)
  }

  /** Conditions of ON without what Spark infers of a table from equalities and from what the others are known to be. */
  private def withoutKnown(on: Seq[Expression], table: Table): Seq[Expression] = {
    val own = table.relation.outputSet
    val keyed = on.flatMap(sides)
    val equal = AttributeMap(on.collect {
      case EqualTo(key: Attribute, other) if own.contains(key) && other.references.intersect(own).isEmpty =>
        key -> other
      case EqualTo(other, key: Attribute) if own.contains(key) && other.references.intersect(own).isEmpty =>
        key -> other
    })
    def isKnown(one: Expression): Boolean = one.references.subsetOf(own) && {
      val there = one.transform { case key: Attribute => equal.getOrElse(key, key) }
      where.exists(_.semanticEquals(there))
    }
    on.filterNot(one => isImplied(one, keyed) || isKnown(one))
  }

  private def owned(expression: Expression): Seq[Int] = expression.references.toSeq.flatMap(owners.get(_))

  /** The two sides of an equality between tables. */
  private def sides(condition: Expression): Seq[Expression] = condition match {
    case EqualTo(one, other) if owned(one).distinct.size == 1 && owned(other).distinct.size == 1 &&
        owned(one) != owned(other) =>
      Seq(one, other)
    case _ => Nil
  }

  private def isImplied(condition: Expression, keyed: Seq[Expression]): Boolean = condition match {
    case IsNotNull(value) => keyed.exists(one => one.semanticEquals(value))
    case _ => false
  }
}

object StarTree extends PredicateHelper {
  /** A join as the engine names its kinds. */
  case class Joined(kind: String, on: Seq[Expression])

  /** A tree of two tables or more. */
  def unapply(plan: LogicalPlan): Option[StarTree] = of(plan).filter(_.tables.size > 1).map(_.settled)

  private def of(plan: LogicalPlan): Option[StarTree] = plan match {
    case Table(table) => Some(StarTree(Vector(table), Vector.empty, Vector.empty, AttributeMap.empty[Expression]))
    // Subqueries are optimized first, and their tables are read already.
    case read: DataSourceV2ScanRelation => read.scan match {
      case scan: PlannedScan => scan.rows.map(of(_, read.output))
      case _ => None
    }
    case answer: ProjsegAnswer => answer.read.map(of(_, answer.output))
    case Project(list, child) if list.forall(_.deterministic) => of(child).map(_.projected(list))
    case Filter(condition, child) if condition.deterministic =>
      splitConjunctivePredicates(condition).foldLeft(of(child)) { (found, one) => found.flatMap(_.filtered(one)) }
    case Join(left, right, joinType, condition, _) if condition.forall(_.deterministic) =>
      val on = condition.toSeq.flatMap(splitConjunctivePredicates).map(withoutCasts(_))
      joinType match {
        case _: InnerLike => both(left, right).flatMap { case (one, other) => one.joined(other, "inner", on) }
        case LeftOuter => both(left, right).flatMap { case (one, other) => one.joined(other, "left", on) }
        case RightOuter => both(right, left).flatMap { case (one, other) => one.joined(other, "left", on) }
        case LeftSemi => both(left, distinct(right)).flatMap { case (one, other) => one.joined(other, "semi", on) }
        case LeftAnti => both(left, distinct(right)).flatMap { case (one, other) => one.joined(other, "anti", on) }
        case _ => None
      }
    case _ => None
  }

  private def of(read: ReadRows, output: Seq[Attribute]): StarTree = {
    val stored = read.table.relation.output
    val columns = output.flatMap(one => stored.find(_.name == one.name).map(one -> _))
    StarTree(Vector(read.table), Vector.empty, read.conditions.toVector, AttributeMap(columns))
  }

  private def both(one: LogicalPlan, other: LogicalPlan): Option[(StarTree, StarTree)] =
    of(one).flatMap(first => of(other).map(first -> _))

  /** A plan whose rows are asked for, and not how many are alike. */
  private def distinct(plan: LogicalPlan): LogicalPlan = plan match {
    case grouped: Aggregate if grouped.aggregateExpressions.forall(_.isInstanceOf[Attribute]) => grouped.child
    case other => other
  }

  private def outputOf(tables: Seq[Table]): AttributeSet = AttributeSet(tables.flatMap(_.relation.output))

  /** An equality of exact numbers without casts that keep values: a key is a column then. */
  private def withoutCasts(condition: Expression): Expression = condition match {
    case EqualTo(one, other) => EqualTo(uncast(one), uncast(other))
    case other => other
  }

  private def uncast(expression: Expression): Expression = expression match {
    case cast: Cast if Cast.canUpCast(cast.child.dataType, cast.dataType) =>
      (cast.child.dataType, cast.dataType) match {
        case (_: IntegralType | _: DecimalType, _: IntegralType | _: DecimalType) => cast.child
        case _ => cast
      }
    case other => other
  }
}
