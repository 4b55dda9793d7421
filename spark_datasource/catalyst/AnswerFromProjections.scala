package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Count}
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.types.{DataType, StructField, StructType}

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
    if (!settings.isEnabled || !plan.exists { case Table(_) => true; case _ => false }) plan
    else new Rewriting(session, settings, conf.sessionLocalTimeZone).rewritten(plan)
  }
}

private class Rewriting(session: SparkSession, settings: Settings, zone: String) {
  private val texts = new SqlTexts(zone)
  private val requests = new Requests(settings)

  def rewritten(plan: LogicalPlan): LogicalPlan = plan.transformDownWithPruning(_ => true) {
    case aggregate: Aggregate => aggregated(aggregate).getOrElse(aggregate)
    case scan @ PhysicalOperation(projects, filters, Table(table)) =>
      scanned(projects, filters, table).getOrElse(scan)
  }

  // ---- aggregates

  private def aggregated(aggregate: Aggregate): Option[LogicalPlan] = {
    val grouping = aggregate.groupingExpressions.filterNot(_.foldable)
    val calls = aggregate.aggregateExpressions
      .flatMap(_.collect { case call: AggregateExpression => call }).distinctBy(_.canonicalized)
    // Without keys the engine gives one row of no rows, where groups by a literal would be none.
    if (grouping.isEmpty && (calls.isEmpty || aggregate.groupingExpressions.nonEmpty)) return None
    val source = aggregate.child match {
      case Below(below) => groups(below, grouping, calls)
      case Expand(sets, output, Below(below)) => groupingSets(below, sets, output, grouping, calls)
      case _ => None
    }
    source.flatMap(outputs(aggregate, grouping, calls, _))
  }

  /** A table below projections and filters, and expressions over them as expressions over it. */
  private case class Below(filters: Seq[Expression], table: Table, aliases: AttributeMap[Expression]) {
    def of(expression: Expression): Expression =
      expression.transform { case attribute: Attribute => aliases.getOrElse(attribute, attribute) }
  }

  private object Below {
    def unapply(plan: LogicalPlan): Option[Below] = plan match {
      case PhysicalOperation(projects, filters, Table(table)) =>
        val aliases = projects.collect { case alias: Alias => alias.toAttribute -> alias.child }
        Some(Below(filters, table, AttributeMap(aliases)))
      case _ => None
    }
  }

  /** A plan whose output is keys and calls, which are over the columns of `below`. */
  private def groups(below: Below, keys: Seq[Expression], calls: Seq[AggregateExpression]): Option[LogicalPlan] = {
    val keyTexts = keys.map(key => texts.of(below.of(key)))
    val callTexts = calls.map(call =>
      texts.of(below.of(call).asInstanceOf[AggregateExpression], settings.approximateDistinct))
    val filterTexts = below.filters.map(texts.of)
    val all = keyTexts ++ callTexts ++ filterTexts
    if (all.exists(_.isEmpty)) return None

    val query = queryOf(filterTexts.flatten.map(_.text))
    val asked = Seq("group_by" -> keyTexts, "aggregators" -> callTexts)
    asked.foreach { case (field, found) =>
      val list = query.putArray(field)
      found.flatten.zipWithIndex.foreach { case (one, index) => list.add(s"${one.text} AS ${field.head}$index") }
    }
    val request = requests.of("answer", below.table)
    request.set[ObjectNode]("query", query)
    request.put("max_bytes", if (settings.isLocalEnabled) settings.localBytes else -1L)
    request.put("max_rows", settings.localRows)
    val wanted = keys ++ calls
    for {
      reply <- requests.ask(request)
      if below.table.isAsStored(reply)
      types = reply.content.get("types").elements().asScala.map(one => DataType.fromDDL(one.asText)).toSeq
      if types == wanted.map(_.dataType)
      isAnswered = reply.content.get("answered").asBoolean
      // An error in a task would be projseg's own, and where Spark might not have looked.
      if isAnswered || !all.flatten.exists(_.mayFail)
      source <- if (isAnswered) Some(planted(wanted, reply)) else shared(wanted, query, keys.size, reply, below.table)
    } yield source
  }

  /** As `groups` for each of the grouping sets of an Expand, one after the other. */
  private def groupingSets(
      below: Below, sets: Seq[Seq[Expression]], output: Seq[Attribute], keys: Seq[Expression],
      calls: Seq[AggregateExpression]): Option[LogicalPlan] = {
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
      groups(below, grouped, asked).map { source =>
        val left = source.output.iterator
        val columns = setKeys.map(key => if (key.foldable) key else left.next()) ++ setCalls.map(_ => left.next())
        val kept = if (grouped.isEmpty) Filter(GreaterThan(left.next(), Literal(0L)), source) else source
        Project(columns.zipWithIndex.map { case (column, index) => Alias(column, s"c$index")() }, kept)
      }
    }
    if (parts.forall(_.isDefined)) Some(Union(parts.flatten)) else None
  }

  private def queryOf(conditions: Seq[String]): ObjectNode = {
    val query = Engine.json.createObjectNode()
    query.put("projseg_query", 1)
    if (conditions.nonEmpty) query.put("filter", conditions.mkString(" AND "))
    val context = query.putObject("context")
    context.put("timezone", zone)
    settings.context.foreach { case (name, value) => context.put(name, value) }
    query
  }

  /** The answer's rows, planted into the plan. */
  private def planted(wanted: Seq[Expression], reply: Reply): LogicalPlan = {
    val attributes = wanted.zipWithIndex.map { case (expression, index) =>
      AttributeReference(s"c$index", expression.dataType, expression.nullable)()
    }
    val schema = StructType(attributes.map(one => StructField(one.name, one.dataType, one.nullable)))
    ProjsegAnswer(attributes, Engine.rowsOf(reply.rows, schema), s"from ${reply.content.get("plan").asText}")
  }

  /** The groups of all tasks, merged by Spark. */
  private def shared(
      wanted: Seq[Expression], query: ObjectNode, keyCount: Int, reply: Reply, table: Table): Option[LogicalPlan] = {
    val merging = reply.content.get("merging")
    if (merging.isNull) return None
    val partial = query.deepCopy()
    partial.put("aggregation", "partial")
    val loaded = load(table, partial)
    if (loaded.isEmpty) return None
    val states = loaded.get
    val keys = (0 until keyCount).map(index => states.col(s"g$index"))
    val values = merging.elements().asScala.map(one => expr(one.get("value").asText).as(one.get("name").asText)).toSeq
    val merged =
      if (values.isEmpty) states.select(keys: _*).distinct()
      else states.groupBy(keys: _*).agg(values.head, values.tail: _*)
    val plan = merged.queryExecution.optimizedPlan
    val isSame = plan.output.map(_.dataType) == wanted.map(_.dataType)
    if (isSame) Some(plan) else None
  }

  /** The aggregate's own outputs, over a source of its keys and calls. */
  private def outputs(
      aggregate: Aggregate, grouping: Seq[Expression], calls: Seq[AggregateExpression], source: LogicalPlan)
      : Option[LogicalPlan] = {
    val attributes = source.output
    def of(expression: Expression, position: Int): Expression = {
      val attribute = attributes(position)
      if (attribute.nullable && !expression.nullable) KnownNotNull(attribute) else attribute
    }
    val found = aggregate.aggregateExpressions.map { output =>
      val replaced = output.transformDown {
        case call: AggregateExpression if calls.exists(_.canonicalized == call.canonicalized) =>
          of(call, grouping.size + calls.indexWhere(_.canonicalized == call.canonicalized))
        case expression if grouping.exists(_.semanticEquals(expression)) =>
          of(expression, grouping.indexWhere(_.semanticEquals(expression)))
      }
      replaced match {
        case alias: Alias => alias
        case other => Alias(other, output.name)(output.exprId, output.qualifier)
      }
    }
    val known = AttributeSet(attributes)
    if (!found.forall(_.references.subsetOf(known))) None
    else Some(source match {
      case answer: ProjsegAnswer => evaluated(found, answer).getOrElse(Project(found, answer))
      case _ => Project(found, source)
    })
  }

  /** The outputs over an answer, unless Spark has to run them, or they fail and it may not need them. */
  private def evaluated(outputs: Seq[NamedExpression], answer: ProjsegAnswer): Option[LogicalPlan] =
    if (!outputs.forall(_.deterministic) || outputs.exists(SubqueryExpression.hasSubquery)) None
    else try {
      val project = new InterpretedProjection(outputs, answer.output)
      Some(ProjsegAnswer(outputs.map(_.toAttribute), answer.rows.map(row => project(row).copy()), answer.told))
    } catch { case NonFatal(_) => None }

  // ---- scans

  private def scanned(
      projects: Seq[NamedExpression], filters: Seq[Expression], table: Table): Option[LogicalPlan] = {
    val found = filters.map(filter => texts.of(filter).filterNot(_.mayFail))
    val accepted = accepting(found.flatten.map(_.text), table)
    val passed = filters.zip(found).collect { case (filter, Some(text)) if accepted.contains(text.text) => filter -> text.text }
    val left = filters.filterNot(filter => passed.exists(_._1 eq filter))
    val output = table.relation.output
    val needed = AttributeSet(projects.flatMap(_.references) ++ left.flatMap(_.references))
    val columns = output.filter(needed.contains) match {
      case Nil => output.take(1)
      case some => some
    }
    // The source's own reader keeps a version of its own: the one that the analysis named is read.
    if (passed.isEmpty && columns.size == output.size && !table.isPinned) return None
    val query = queryOf(passed.map(_._2))
    val names = query.putArray("columns")
    columns.foreach(column => names.add("`" + column.name.replace("`", "``") + "`"))
    val loaded = load(table, query)
    if (loaded.isEmpty) return None
    val source = loaded.get.queryExecution.optimizedPlan
    if (source.output.map(_.dataType) != columns.map(_.dataType)) return None
    val renamed: LogicalPlan = Project(
      columns.zip(source.output).map { case (column, read) => Alias(read, column.name)(column.exprId, column.qualifier) },
      source)
    val filtered = left.reduceOption(And).map(Filter(_, renamed)).getOrElse(renamed)
    Some(Project(projects, filtered))
  }

  private def accepting(conditions: Seq[String], table: Table): Set[String] = {
    if (conditions.isEmpty) return Set.empty
    val request = requests.of("check", table)
    request.put("timezone", zone)
    val asked = request.putArray("conditions")
    conditions.foreach(asked.add)
    requests.ask(request) match {
      case Some(reply) if table.isAsStored(reply) =>
        reply.content.get("accepted").elements().asScala.map(one => conditions(one.asInt)).toSet
      case _ => Set.empty
    }
  }

  /** A query's answer, unless the source refuses: then Spark reads as it would, or says why not. */
  private def load(table: Table, query: ObjectNode): Option[DataFrame] = {
    val reader = session.read.format("projseg").option("query", Engine.json.writeValueAsString(query))
    table.version.foreach(version => reader.option("versionAsOf", version))
    try Some(reader.load(table.location).asInstanceOf[DataFrame])
    catch { case _: AnalysisException => None }
  }
}
