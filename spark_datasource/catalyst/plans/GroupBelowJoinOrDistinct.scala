package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.types.DataType

/**
 * Groups a table's rows before they are joined, so that Spark joins groups with their states; or
 * before it counts distinct values, by these too.
 *
 * Rows that agree in all columns that conditions, keys and other arguments read are joined alike.
 * So a group stands for its rows wherever it is joined, as often as it is; and merging its state
 * once for each time is the aggregate over that many copies of its rows.
 */
class GroupBelowJoinOrDistinct(
    session: SparkSession, settings: Settings, reads: PlannedReads, requests: PlanRequests, texts: SqlTexts) {
  def rewritten(aggregate: Aggregate, note: Option[Refusal]): Option[LogicalPlan] = {
    if (!aggregate.expressions.forall(_.deterministic)) return None
    val tables = JoinedTable.in(aggregate.child)
    val read = AttributeSet(OutputRewriter.calls(aggregate).flatMap(_.references))
    // The table that the most arguments are of has the most to say of its groups.
    tables.sortBy(joined => -AttributeSet(read.map(joined.over).flatMap(_.references)).count(joined.columns.contains))
      .flatMap(joined => grouped(aggregate, joined, note)).headOption
  }

  private def grouped(aggregate: Aggregate, joined: JoinedTable, note: Option[Refusal]): Option[LogicalPlan] = {
    val keys = new TableKeys(joined, texts)
    val states = new StatesOfCalls(keys, texts, settings.approximateDistinct)
    val (passed, steps) = joined.steps.partition {
      case JoinedTable.Where(condition) => joined.isOfTable(condition) && texts.of(condition).isDefined
      case _ => false
    }
    val filters = passed.collect { case JoinedTable.Where(condition) => texts.of(condition).get }
    val left = joined.copy(steps = steps)
    val conditions = left.steps.flatMap {
      case JoinedTable.Where(condition) => Some(condition)
      case JoinedTable.Joined(join, _) => join.condition
    }
    for {
      _ <- if (left.steps.nonEmpty || OutputRewriter.calls(aggregate).exists(_.isDistinct)) Some(left) else None
      _ <- every(conditions)(keys.of)
      grouping <- every(aggregate.groupingExpressions)(one => keys.of(joined.over(one)))
      asked = OutputRewriter.calls(aggregate)
      merged <- every(asked)(call => states.of(joined.over(call).asInstanceOf[AggregateExpression]))
      // Without keys, no rows would be one group.
      if keys.attributes.nonEmpty
      source <- source(joined.table, filters, keys, states, isJoined = left.steps.nonEmpty, note)
      plan = left.overSource(source.plan, keys.of(_).get)
      values = asked.map(_.canonicalized).zip(merged.map(_.over(source.values, source.states))).toMap
      outputs <- outputs(aggregate, grouping, values, plan)
    } yield aggregate.copy(groupingExpressions = grouping, aggregateExpressions = outputs, child = plan)
  }

  /** The groups, with their keys' attributes, and the values of aggregates asked, over `states`. */
  private case class GroupedSide(plan: LogicalPlan, states: Seq[Seq[Attribute]], values: Seq[Expression])

  private def source(
      table: Table, filters: Seq[SqlText], keys: TableKeys, asked: StatesOfCalls, isJoined: Boolean,
      note: Option[Refusal])
      : Option[GroupedSide] = {
    val query = reads.groups(Seq(table)).put("aggregation", "partial")
    val request = requests.groups("states", table, query, keys.texts, asked.texts, filters)
    for {
      reply <- requests.reply(request).toOption
      if reply.content.get("reducing").asBoolean && table.isAsStored(reply)
      types = listed(reply, "types").map(one => StoredType.of(one.asText))
      if types.take(keys.attributes.size) == keys.attributes.map(_.dataType)
      isAnswered = reply.content.get("answered").asBoolean
      if isAnswered || !(filters ++ asked.texts).exists(_.mayFail)
      names = keys.attributes.map(_.name) ++ listed(reply, "states").map(_.asText)
      plan <-
        if (isAnswered) Some(planted(names, types, reply, if (isJoined) "below a join, " else "below DISTINCT, ", note))
        else reads.scan(table, query, PlanSummary.of(reply.content).and(note)).toOption
      if plan.output.map(_.dataType) == types
      values <- merging(plan, reply)
    } yield {
      val (found, states) = plan.output.splitAt(keys.attributes.size)
      val named = keys.attributes.zip(found).map { case (key, column) =>
        Alias(OutputRewriter.as(column, key), key.name)(key.exprId)
      }
      val byCall = asked.texts.indices.map(index => states.filter(_.name.takeWhile(_ != '.') == s"a$index"))
      GroupedSide(Project(named ++ states, plan), byCall, values)
    }
  }

  private def planted(names: Seq[String], types: Seq[DataType], reply: Reply, how: String, note: Option[Refusal])
      : LogicalPlan = {
    val columns = names.zip(types).map { case (name, dataType) => AttributeReference(name, dataType)() }
    ProjsegAnswer.of(columns, reply, how, note)
  }

  /** The values of the aggregates asked, as Spark writes their SQL over the states. */
  private def merging(states: LogicalPlan, reply: Reply): Option[Seq[Expression]] = {
    val values = listed(reply, "merging").map(one => expr(one.get("value").asText).as(one.get("name").asText))
    if (values.isEmpty) return Some(Nil)
    val frame = Dataset.ofRows(session.asInstanceOf[ClassicSession], states)
    def written(plan: LogicalPlan): Option[Seq[Expression]] = plan match {
      case total: Aggregate if total.groupingExpressions.isEmpty => Some(total.aggregateExpressions.map(withoutAlias))
      case Project(list, child) => written(child).map { below =>
        val known = AttributeMap(child.output.zip(below))
        list.map(withoutAlias(_).transformUp { case one: Attribute => known.getOrElse(one, one) })
      }
      case _ => None
    }
    written(frame.agg(values.head, values.tail: _*).queryExecution.optimizedPlan)
  }

  private def withoutAlias(expression: Expression): Expression = expression match {
    case Alias(child, _) => child
    case other => other
  }

  private def listed(reply: Reply, name: String) = reply.content.get(name).elements().asScala.toSeq

  private def outputs(
      aggregate: Aggregate, grouping: Seq[Expression], values: Map[Expression, Expression], plan: LogicalPlan)
      : Option[Seq[NamedExpression]] = {
    def of(expression: Expression): Expression = expression match {
      case call: AggregateExpression => OutputRewriter.as(values(call.canonicalized), call)
      case key if aggregate.groupingExpressions.exists(_.semanticEquals(key)) =>
        OutputRewriter.as(grouping(aggregate.groupingExpressions.indexWhere(_.semanticEquals(key))), key)
      case other => other.mapChildren(of)
    }
    val found = aggregate.aggregateExpressions.map(output => OutputRewriter.output(of(output), output))
    val isSame = found.map(_.dataType) == aggregate.aggregateExpressions.map(_.dataType)
    if (isSame && found.forall(_.references.subsetOf(plan.outputSet))) Some(found) else None
  }

  private def every[A, B](all: Seq[A])(of: A => Option[B]): Option[Seq[B]] = {
    val found = all.map(of)
    if (found.forall(_.isDefined)) Some(found.flatten) else None
  }
}
