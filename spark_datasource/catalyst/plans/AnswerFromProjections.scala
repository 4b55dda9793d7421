package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._
import scala.util.{Left, Right}
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Count}
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.functions.expr

/**
 * Answers aggregates over projseg tables from the engine, and reads of the rest only the columns
 * and rows that are needed.
 *
 * An aggregate whose work is small is answered here and planted as a local relation. A larger one
 * is read as states of groups, from Spark's tasks, and merged by Spark. What has no exact text for
 * the engine, or fails there, stays as it is.
 */
class AnswerFromProjections(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val settings = new Settings(conf)
    if (!settings.isEnabled || !plan.exists { case RowsOf(_) => true; case _ => false }) plan
    else new Rewriting(session, settings, conf.sessionLocalTimeZone).rewritten(plan)
  }
}

private class Rewriting(session: SparkSession, settings: Settings, zone: String) {
  private val texts = new SqlTexts(zone, ZoneRules.areShared(settings, zone))
  private val requests = new PlanRequests(settings)
  private val reads = new PlannedReads(session, settings, zone)
  private val scans = new Scans(settings, reads, requests, texts)
  private val belowJoins = new GroupBelowJoinOrDistinct(session, settings, reads, requests, texts)
  private val knownKeys = new KnownKeys(texts, takesReadRows = true)
  /** For stars: a view that answers one has the joined columns, and perhaps no key. */
  private val keysOfAnswers = new KnownKeys(texts, takesReadRows = false)
  /**
   * Whether the aggregate that is looked at reads all that its statement does, so that it may be of
   * an earlier state.
   */
  private var mayBeOld = false
  /** Why stored results do not answer what the aggregate that is looked at is part of. */
  private var noResult = Option.empty[Refusal]
  /** Why an aggregate over a table's columns is left to Spark. */
  private val refused = collection.mutable.Map[ExprId, Refusal]()

  def rewritten(plan: LogicalPlan): LogicalPlan =
    try {
      val sources = EarlierState.sources(plan, session)
      val grouped = keysOfAnswers.passed(plan).transformDownWithPruning(_ => true) {
        case aggregate: Aggregate =>
          def tables = aggregate.child.collectLeaves().collect { case Table(table) => table }
          mayBeOld = sources > 0 && tables.size == sources && !aggregate.child.isInstanceOf[Expand]
          noResult = tables.flatMap(_.noResult).headOption
          requests.planned.attempt(tables) {
            aggregated(aggregate).fold(
              refusal =>
                belowJoins.rewritten(aggregate, Option.when(isStar(aggregate))(refusal)).toRight(refusal), Right(_))
          }.fold({ refusal =>
            tables.flatMap(_.relation.output).foreach(column => refused.put(column.exprId, refusal))
            aggregate
          }, answered => answered)
      }
      // Answers have keys too, that are known only here.
      val passed = knownKeys.passed(grouped)
      val mayPlant = isOfSeveral(plan)
      (if (mayPlant) settled(passed) else passed).transformDownWithPruning(_ => true) {
        case limit @ GlobalLimit(IntegerLiteral(most), local @ LocalLimit(IntegerLiteral(_), child)) =>
          first(child, most).map(rows => limit.copy(child = local.copy(child = rows))).getOrElse(limit)
        case scan @ PhysicalOperation(projects, filters, RowsOf(table)) =>
          requests.planned.attempt(Seq(table))(scans.scanned(projects, filters, table, noteOf(table), mayPlant))
            .getOrElse(scan)
      }
    } finally requests.planned.publish()

  /** Whether a statement reads something else, too: a scan alone tells no other what keys it has. */
  private def isOfSeveral(plan: LogicalPlan): Boolean = plan.isInstanceOf[Subquery] ||
    plan.collectLeaves().size > 1 || plan.exists(_.expressions.exists(SubqueryExpression.hasSubquery))

  /** The plan with the rows of little scans planted: their keys may make others little. */
  private def settled(plan: LogicalPlan): LogicalPlan = {
    val planted = withLittle(plan)
    if (planted eq plan) plan else settled(knownKeys.passed(planted))
  }

  private def withLittle(plan: LogicalPlan): LogicalPlan = plan match {
    case PhysicalOperation(projects, filters, Table(table)) =>
      scans.little(projects, filters, table, noteOf(table)).getOrElse(plan)
    case other => other.mapChildren(withLittle)
  }

  /** Why no more than a table's rows are asked for. */
  private def noteOf(table: Table): Option[Refusal] =
    table.options.get(Table.OfView).map(view => Refusal(s"the stored rows of view $view"))
      .orElse(table.relation.output.flatMap(column => refused.get(column.exprId)).headOption)
      .orElse(table.noResult)

  /** What gives the first rows of a scan, sorted or not; Spark still sorts and cuts them. */
  private def first(plan: LogicalPlan, limit: Int): Either[Refusal, LogicalPlan] = plan match {
    case sort @ Sort(order, true, PhysicalOperation(projects, filters, Table(table)), _) =>
      requests.planned.attempt(Seq(table))(scans.first(projects, filters, table, order, limit))
        .map(rows => sort.copy(child = rows))
    case PhysicalOperation(projects, filters, Table(table)) =>
      requests.planned.attempt(Seq(table))(scans.first(projects, filters, table, Nil, limit))
    case _ => Left(Refusal("it is no scan of a table"))
  }

  // ---- aggregates

  private def aggregated(aggregate: Aggregate): Either[Refusal, LogicalPlan] = {
    val grouping = aggregate.groupingExpressions.filterNot(_.foldable)
    val calls = OutputRewriter.calls(aggregate)
    // Without keys the engine gives one row of no rows, where groups by a literal would be none.
    if (grouping.isEmpty && (calls.isEmpty || aggregate.groupingExpressions.nonEmpty))
      return Left(Refusal("it groups by literals"))
    val source = aggregate.child match {
      case RowSource(rows) => groups(rows, grouping, calls)
      case Expand(sets, output, RowSource(rows)) => groupingSets(rows, sets, output, grouping, calls)
      case _ => Left(Refusal("it is not over a single table"))
    }
    source.flatMap(outputs(aggregate, grouping, calls, _))
  }

  /** What an aggregate is over, as the engine reads it. */
  private sealed trait RowSource {
    def texts: SqlTexts
    def filters: Seq[Expression]
    /** An expression over the stored columns. */
    def of(expression: Expression): Expression
    /** The request of keys, calls and filters, and the query in it. */
    def request(keys: Seq[SqlText], calls: Seq[SqlText], filters: Seq[SqlText]): Option[ObjectNode]
    def taken(reply: Reply, wanted: Seq[Expression], keyCount: Int, query: JsonNode, mayFail: Boolean)
        : Either[Refusal, LogicalPlan]
  }

  private object RowSource {
    def unapply(plan: LogicalPlan): Option[RowSource] = plan match {
      case StarTree(tree) => Some(JoinedRows(tree))
      case PhysicalOperation(projects, filters, Table(table)) =>
        val aliases = projects.collect { case alias: Alias => alias.toAttribute -> alias.child }
        Some(TableRows(NullRejection.withoutImplied(filters), table, AttributeMap(aliases)))
      case _ => None
    }
  }

  /** A table below projections and filters, and expressions over them as expressions over it. */
  private case class TableRows(filters: Seq[Expression], table: Table, aliases: AttributeMap[Expression])
      extends RowSource {
    override def texts: SqlTexts = Rewriting.this.texts
    override def of(expression: Expression): Expression =
      expression.transform { case attribute: Attribute => aliases.getOrElse(attribute, attribute) }
    override def request(keys: Seq[SqlText], calls: Seq[SqlText], filters: Seq[SqlText]): Option[ObjectNode] =
      Some(requests.groups("answer", table, reads.groups(Seq(table), mayBeOld), keys, calls, filters))
    override def taken(reply: Reply, wanted: Seq[Expression], keyCount: Int, query: JsonNode, mayFail: Boolean) =
      if (!table.isAsStored(reply)) Left(Refusal.ofTypes)
      else Rewriting.this.taken(reply, wanted, keyCount, query, table, mayFail)
  }

  /** JoinedRows tables, of which the engine says which one's rows are grouped, and by which query. */
  private case class JoinedRows(tree: StarTree) extends RowSource {
    override val texts: SqlTexts = Rewriting.this.texts.naming(tree.named)
    override def filters: Seq[Expression] = tree.conditions
    override def of(expression: Expression): Expression = tree.over(expression)
    override def request(keys: Seq[SqlText], calls: Seq[SqlText], filters: Seq[SqlText]): Option[ObjectNode] =
      requests.star(tree, reads.groups(tree.tables, mayBeOld), keys, calls, texts)
    override def taken(reply: Reply, wanted: Seq[Expression], keyCount: Int, query: JsonNode, mayFail: Boolean) = {
      val columns = reply.content.get("tables").elements().asScala.toSeq
      val fact = tree.tables(reply.content.get("fact").asInt)
      if (!tree.tables.zip(columns).forall { case (table, stored) => table.isAsStored(stored) }) Left(Refusal.ofTypes)
      else if (!reply.content.get("answered").asBoolean && tree.tables.exists(_.storage != fact.storage))
        Left(Refusal("its tables are in stores with other options, and too much to read while planning"))
      else Rewriting.this.taken(reply, wanted, keyCount, reply.content.get("star"), fact, mayFail)
    }
  }

  private def isStar(aggregate: Aggregate): Boolean = aggregate.child match {
    case StarTree(_) | Expand(_, _, StarTree(_)) => true
    case _ => false
  }

  /** A plan whose output is keys and calls, which are over the columns of `source`. */
  private def groups(source: RowSource, keys: Seq[Expression], calls: Seq[AggregateExpression])
      : Either[Refusal, LogicalPlan] = {
    val texts = source.texts
    val keyTexts = keys.map(key => texts.of(source.of(key)))
    val callTexts = calls.map(call =>
      texts.of(source.of(call).asInstanceOf[AggregateExpression], settings.approximateDistinct, isWhole = true))
    val filterTexts = source.filters.map(texts.of)
    val all = keyTexts ++ callTexts ++ filterTexts
    if (all.exists(_.isEmpty)) return Left(without(all.zip((keys ++ calls).map(source.of) ++ source.filters), texts))

    val wanted = keys ++ calls
    for {
      request <- source.request(keyTexts.flatten, callTexts.flatten, filterTexts.flatten)
        .toRight(Refusal("a condition has no exact meaning in projseg here"))
      reply <- requests.reply(request)
      types = reply.content.get("types").elements().asScala.map(one => StoredType.of(one.asText)).toSeq
      _ <- Either.cond(types == wanted.map(_.dataType), (), Refusal("projseg's types are not Spark's"))
      plan <- source.taken(reply, wanted, keys.size, request.get("query"), all.flatten.exists(_.mayFail))
    } yield plan
  }

  /** A plan of a reply: its rows, or what tasks read, unless Spark would see something else. */
  private def taken(
      reply: Reply, wanted: Seq[Expression], keyCount: Int, query: JsonNode, table: Table, mayFail: Boolean)
      : Either[Refusal, LogicalPlan] =
    if (reply.content.get("answered").asBoolean) Right(planted(wanted, reply))
    // An error in a task would be projseg's own, and where Spark might not have looked.
    else if (mayFail) Left(Refusal("an expression may fail, and is too much to compute while planning"))
    else shared(wanted, query.asInstanceOf[ObjectNode], keyCount, reply, table)

  /** Names the expression that has no text. */
  private def without(all: Seq[(Option[SqlText], Expression)], texts: SqlTexts): Refusal = {
    val unknown = all.collectFirst { case (None, expression) => texts.unknown(expression) }
    if (texts.hasOtherRules(unknown.get)) return Refusal(s"time zone $zone has other rules in this JVM than in projseg")
    val named = unknown.get match {
      case column: Attribute => s"${column.name} of type ${column.dataType.sql}"
      case other => other.prettyName
    }
    Refusal(s"$named has no exact meaning in projseg here")
  }

  /** As `groups` for each of the grouping sets of an Expand, one after the other. */
  private def groupingSets(
      source: RowSource, sets: Seq[Seq[Expression]], output: Seq[Attribute], keys: Seq[Expression],
      calls: Seq[AggregateExpression]): Either[Refusal, LogicalPlan] = {
    val parts = sets.map { set =>
      val values = AttributeMap(output.zip(set))
      def over(expression: Expression): Expression =
        expression.transform { case attribute: Attribute => values.getOrElse(attribute, attribute) }
      val setKeys = keys.map(over)
      val setCalls = calls.map(over(_).asInstanceOf[AggregateExpression])
      val grouped = setKeys.filterNot(_.foldable)
      // A total of no rows is one row, but a grouping set of no rows is none.
      val rowCount = Count(Literal(1)).toAggregateExpression()
      val asked = if (grouped.isEmpty) setCalls :+ rowCount else setCalls
      groups(source, grouped, asked).map { groups =>
        val left = groups.output.iterator
        val columns = setKeys.map(key => if (key.foldable) key else left.next()) ++ setCalls.map(_ => left.next())
        val kept = if (grouped.isEmpty) Filter(GreaterThan(left.next(), Literal(0L)), groups) else groups
        Project(columns.zipWithIndex.map { case (column, index) => Alias(column, s"c$index")() }, kept)
      }
    }
    parts.collectFirst { case Left(refusal) => Left(refusal) }
      .getOrElse(Right(parts.collect { case Right(part) => part } match {
      case Seq(only) => only // a Union has two children or more
      case several => Union(several)
    }))
  }

  /** The answer's rows, planted into the plan. */
  private def planted(wanted: Seq[Expression], reply: Reply): LogicalPlan = {
    val attributes = wanted.zipWithIndex.map { case (expression, index) =>
      AttributeReference(s"c$index", expression.dataType, expression.nullable)()
    }
    ProjsegAnswer.of(attributes, reply, "", noResult)
  }

  /** The groups of all tasks, merged by Spark. */
  private def shared(
      wanted: Seq[Expression], query: ObjectNode, keyCount: Int, reply: Reply, table: Table)
      : Either[Refusal, LogicalPlan] = {
    val merging = reply.content.get("merging")
    if (merging.isNull) return Left(
        Refusal("too much to read while planning, and Spark cannot merge an aggregate's states"))
    reads.scan(table, query.deepCopy().put("aggregation", "partial"), PlanSummary.of(reply.content).and(noResult))
      .flatMap(states =>
        merged(Dataset.ofRows(session.asInstanceOf[ClassicSession], states), wanted, keyCount, merging))
  }

  private def merged(
      states: DataFrame, wanted: Seq[Expression], keyCount: Int, merging: JsonNode): Either[Refusal, LogicalPlan] = {
    val keys = (0 until keyCount).map(index => states.col(s"g$index"))
    val values = merging.elements().asScala.map(one => expr(one.get("value").asText).as(one.get("name").asText)).toSeq
    val groups =
      if (values.isEmpty) states.select(keys: _*).distinct()
      else states.groupBy(keys: _*).agg(values.head, values.tail: _*)
    val plan = groups.queryExecution.optimizedPlan
    val isSame = plan.output.map(_.dataType) == wanted.map(_.dataType)
    if (isSame) Right(plan) else Left(Refusal("projseg's types are not Spark's"))
  }

  /** The aggregate's own outputs, over a source of its keys and calls. */
  private def outputs(
      aggregate: Aggregate, grouping: Seq[Expression], calls: Seq[AggregateExpression], source: LogicalPlan)
      : Either[Refusal, LogicalPlan] = {
    val attributes = source.output
    def of(expression: Expression, position: Int): Expression = OutputRewriter.as(attributes(position), expression)
    val found = aggregate.aggregateExpressions.map { output =>
      val replaced = output.transformDown {
        case call: AggregateExpression if calls.exists(_.canonicalized == call.canonicalized) =>
          of(call, grouping.size + calls.indexWhere(_.canonicalized == call.canonicalized))
        case expression if grouping.exists(_.semanticEquals(expression)) =>
          of(expression, grouping.indexWhere(_.semanticEquals(expression)))
      }
      OutputRewriter.output(replaced, output)
    }
    val known = AttributeSet(attributes)
    if (!found.forall(_.references.subsetOf(known))) Left(Refusal("an output is not over its keys and aggregates"))
    else Right(source match {
      case answer: ProjsegAnswer => evaluated(found, answer).getOrElse(Project(found, answer))
      case _ => Project(found, source)
    })
  }

  /** The outputs over an answer, unless Spark has to run them, or they fail and it may not need them. */
  private def evaluated(outputs: Seq[NamedExpression], answer: ProjsegAnswer): Option[LogicalPlan] =
    if (!outputs.forall(_.deterministic) || outputs.exists(SubqueryExpression.hasSubquery)) None
    else try Some(answer.evaluated(outputs)) catch { case NonFatal(_) => None }
}
