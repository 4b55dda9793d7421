package org.apache.spark.sql.projseg

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types.{DecimalType, DoubleType, FloatType}

/** The expressions over a table's columns that the rest of a statement needs: keys to group it by. */
class TableKeys(joined: JoinedTable, sql: SqlTexts) {
  private val found = ArrayBuffer[(Expression, SqlText, AttributeReference)]()

  def texts: Seq[SqlText] = found.map(_._2).toSeq
  def attributes: Seq[AttributeReference] = found.map(_._3).toSeq
  def isOfTable(expression: Expression): Boolean = joined.isOfTable(expression)
  def isApart(expression: Expression): Boolean = expression.references.intersect(joined.columns).isEmpty

  // Spark computes them of every row below the join, so of rows without partners too.
  private val fallible = joined.aliases.values.filter(isOfTable).filterNot(sql.of(_).exists(!_.mayFail)).toSeq

  /** An expression over keys and the columns of other tables, or None if a key cannot be made. */
  def of(expression: Expression): Option[Expression] =
    if (isApart(expression)) Some(expression)
    else if (fallible.exists(_.semanticEquals(expression))) None
    else key(expression).orElse {
      val children = expression.children.map(of)
      if (children.isEmpty || children.exists(_.isEmpty)) None
      else Some(expression.withNewChildren(children.flatten))
    }

  private def key(expression: Expression): Option[Expression] =
    found.collectFirst { case (known, _, attribute) if known.semanticEquals(expression) => attribute }.orElse(
      // Keys of projections do not keep the sign of zero. An error must be Spark's own, and its rows'.
      sql.of(expression).filter(text => isOfTable(expression) && !text.mayFail && !isFloating(expression)).map { text =>
        val name = s"g${found.size}"
        val attribute = AttributeReference(name, expression.dataType, expression.nullable)()
        found += ((expression, text, attribute))
        attribute
      })

  private def isFloating(expression: Expression): Boolean =
    expression.dataType == DoubleType || expression.dataType == FloatType
}

/** An aggregate over joined groups, once the values of those asked, and their states, are known. */
trait Merged {
  def over(values: Seq[Expression], states: Seq[Seq[Attribute]]): Expression
}

/** The aggregates of a table's groups from which those of joined rows are merged. */
class StatesOfCalls(keys: TableKeys, sql: SqlTexts, approximateDistinct: Boolean)
    extends PredicateHelper {
  private val found = ArrayBuffer[SqlText]()

  def texts: Seq[SqlText] = found.toSeq

  /** How an aggregate is merged, or None where that would not be exact. */
  def of(call: AggregateExpression): Option[Merged] = {
    val inputs = call.aggregateFunction.children ++ call.filter
    if (call.isDistinct) kept(call)
    else if (inputs.forall(one => keys.isOfTable(one) || one.foldable)) stated(call).orElse(kept(call))
    else filtered(call).orElse(counted(call)).orElse(chosen(call)).orElse(kept(call))
  }

  private def asked(call: AggregateExpression): Option[Int] = sql.of(call, approximateDistinct).map { text =>
    if (!found.contains(text)) found += text
    found.indexOf(text)
  }

  /** Of the table's columns alone. */
  private def stated(call: AggregateExpression): Option[Merged] = call.aggregateFunction match {
    case average: Average if isDecimalAverage(average) => averaged(call, average)
    case _ => asked(call).map(index => (values, _) => renewed(values(index)))
  }

  /** The average of decimals, as Spark divides their sum by their count. */
  private def averaged(call: AggregateExpression, average: Average): Option[Merged] =
    for {
      _ <- sql.of(call, approximateDistinct)
      sum <- asked(call.copy(aggregateFunction = Sum(average.child)))
      count <- asked(call.copy(aggregateFunction = Count(average.child)))
    } yield (values, _) => {
      val Seq(total, number) = average.aggBufferAttributes
      average.evaluateExpression.transformUp {
        case one: Attribute if one.exprId == total.exprId => Cast(renewed(values(sum)), total.dataType)
        case one: Attribute if one.exprId == number.exprId => renewed(values(count))
      }
    }

  /** With a condition over other columns: states are kept or left out, as their rows would be. */
  private def filtered(call: AggregateExpression): Option[Merged] =
    for {
      filter <- call.filter
      (ofTable, others) = splitConjunctivePredicates(filter).partition(keys.isOfTable)
      condition <- others.reduceOption(And(_, _)).flatMap(keys.of)
      merged <- of(call.copy(filter = ofTable.reduceOption(And(_, _))))
    } yield (values, states) => onlyWhere(condition, merged.over(values, states))

  /** A count of what other columns say: of the rows where they are not null. */
  private def counted(call: AggregateExpression): Option[Merged] = call.aggregateFunction match {
    case Count(children) if call.filter.isEmpty =>
      for {
        arguments <- Some(children.map(keys.of)).filter(_.forall(_.isDefined)).map(_.flatten)
        rows <- asked(call.copy(aggregateFunction = Count(Seq(Literal(1)))))
      } yield (values, _) => onlyWhere(arguments.map(IsNotNull(_)).reduce[Expression](And(_, _)), renewed(values(rows)))
    case _ => None
  }

  /** Of what other columns choose among arguments of the table: they choose among the states. */
  private def chosen(call: AggregateExpression): Option[Merged] = call.aggregateFunction match {
    case function @ (_: Sum | _: Average | _: Min | _: Max) if call.filter.isEmpty =>
      val choice = function.children.head match {
        case If(condition, yes, no) => Some((Seq(condition -> yes), no))
        case CaseWhen(branches, otherwise) =>
          Some((branches, otherwise.getOrElse(Literal(null, function.children.head.dataType))))
        case _ => None
      }
      for {
        (branches, otherwise) <- choice
        conditions <- Some(branches.map(one => keys.of(one._1))).filter(_.forall(_.isDefined)).map(_.flatten)
        arguments = branches.map(_._2) :+ otherwise
        if arguments.forall(one => keys.isOfTable(one) || one.isInstanceOf[Literal])
        if !isDecimalAverage(function) && arguments.exists(!isNull(_))
        chosen = arguments.map { argument =>
          if (isNull(argument)) Some(None)
          else asked(call.copy(aggregateFunction =
            function.withNewChildren(Seq(argument)).asInstanceOf[AggregateFunction])).map(Some(_))
        }
        if chosen.forall(_.isDefined)
      } yield (values, states) => {
        val first = chosen.flatten.flatten.head
        val parts = states(first).zipWithIndex.map { case (part, position) =>
          val each = chosen.flatten.map(_.map(states(_)(position)).getOrElse(Literal(null, part.dataType)))
          part -> (CaseWhen(conditions.zip(each.init), Some(each.last)): Expression)
        }
        val replaced = AttributeMap(parts)
        renewed(values(first).transformUp { case one: Attribute => replaced.getOrElse(one, one) })
      }
    case _ => None
  }

  /** As it is, over the keys, where it does not matter how often a row is repeated. */
  private def kept(call: AggregateExpression): Option[Merged] = {
    val ignoresCopies = call.isDistinct || (call.aggregateFunction match {
      case _: Min | _: Max | _: BitAndAgg | _: BitOrAgg | _: HyperLogLogPlusPlus => true
      case _ => false
    })
    if (ignoresCopies) keys.of(call).map(one => (_, _) => one) else None
  }

  private def isDecimalAverage(function: AggregateFunction): Boolean = function match {
    case average: Average => average.child.dataType.isInstanceOf[DecimalType]
    case _ => false
  }

  private def isNull(expression: Expression): Boolean = expression match {
    case Literal(null, _) => true
    case _ => false
  }

  private def onlyWhere(condition: Expression, value: Expression): Expression = value.transformUp {
    case call: AggregateExpression =>
      call.copy(filter = Some(call.filter.map(And(_, condition)).getOrElse(condition)))
  }

  /**
   * The value, whose aggregates are others than in what was written from the same template: their
   * functions too, because Spark tells the buffers of aggregates apart by the function that made them.
   */
  private def renewed(value: Expression): Expression = value.transformUp {
    case call: AggregateExpression =>
      val function = call.aggregateFunction.clone().asInstanceOf[AggregateFunction]
      call.copy(aggregateFunction = function, resultId = NamedExpression.newExprId)
  }
}
