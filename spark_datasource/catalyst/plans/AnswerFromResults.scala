package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Alias, Ascending, Attribute, SortOrder, SubqueryExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan, Project, Sort}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}

/**
 * Puts the rows of stored results in the place of their SELECTs: of a query, a subquery or a cte that is the same
 * plan over the same rows. It runs where Spark looks for cached plans, before anything is optimized.
 */
class AnswerFromResults(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val settings = new Settings(conf)
    val nominated = if (settings.isEnabled) ResultPlan.tables(plan).flatMap(_.results).toSet else Set.empty[String]
    if (nominated.isEmpty || plan.isStreaming) plan
    else new ResultSearch(session.asInstanceOf[ClassicSession], settings, nominated,
        EarlierState.sources(plan, session)).in(plan.clone())
  }
}

private class ResultSearch(session: ClassicSession, settings: Settings, nominated: Set[String], sources: Int) {
  private val conf = session.sessionState.conf
  private val reads = new PlannedReads(session, settings, conf.sessionLocalTimeZone)
  private val requests = new PlanRequests(settings)

  def in(plan: LogicalPlan): LogicalPlan = try replaced(plan) finally requests.planned.publish()

  private def replaced(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case command: Command => command
    case part if part.resolved && part.output.nonEmpty => answer(part).getOrElse(part)
  }.transformAllExpressions {
    case nested: SubqueryExpression => nested.withNewPlan(replaced(nested.plan))
  }

  private def answer(part: LogicalPlan): Option[LogicalPlan] = for {
    nomination <- ResultPlan.nomination(part).filter(nominated.contains)
    tables = ResultPlan.tables(part).distinctBy(_.id)
    holder <- tables.find(_.results.contains(nomination))
    wanted <- ResultPlan.compared(part)
    query = reads.groups(ResultPlan.tables(part), mayBeOld = sources == ResultPlan.tables(part).size)
    reply <- requests.planned.attempt(tables)(requests.reply(asked("results", holder, query)
      .put("nomination", nomination)
      .set[ObjectNode]("session", Engine.json.valueToTree[JsonNode](ResultPlan.sessionOf(conf).asJava))
      .set[ObjectNode]("tables", Engine.json.valueToTree[JsonNode](tables.map(requests.place(_).asJava).asJava))))
      .fold(refusal =>
        { holder.relation.setTagValue(Table.NoResult, Refusal("no stored result", refusal.detail)); None }, Some(_))
    result <- reply.content.get("results").elements().asScala.find(isSame(_, wanted))
    rows <- requests.attempted(tables)(few(result, part, holder, query)).orElse(many(result, part, holder))
  } yield rows

  private def asked(operation: String, table: Table, query: ObjectNode): ObjectNode = {
    val request = requests.of(operation, table)
    request.set[ObjectNode]("query", query)
    request
  }

  private def isSame(result: JsonNode, wanted: LogicalPlan): Boolean =
    Try(ResultPlan.analysed(session, result.get("select").asText, result.get("tables"))).toOption
      .flatMap(ResultPlan.compared).contains(wanted)

  /** The rows, planted. */
  private def few(result: JsonNode, part: LogicalPlan, holder: Table,
      query: ObjectNode): Either[Refusal, LogicalPlan] = {
    val table = holder.copy(location = result.get("location").asText, version = None)
    val note = if (result.get("old").asBoolean) "; at an earlier state (maxStaleness)" else ""
    val request = asked("stored_rows", table, query).put("view", result.get("view").asText).put("note", note)
      .put("ordered", result.get("ordered").asBoolean)
      .put("max_bytes", if (settings.isLocalEnabled) settings.localBytes else -1L).put("max_rows", settings.localRows)
    for {
      reply <- requests.reply(request)
      types = reply.content.get("types").elements().asScala.map(one => StoredType.of(one.asText)).toSeq
      _ <- Either.cond(types == part.output.map(_.dataType.asNullable), (), Refusal.ofTypes)
      _ <- Either.cond(reply.content.get("answered").asBoolean, (), Refusal("too much to read while planning"))
    } yield ProjsegAnswer.of(part.output, reply, "")
  }

  /** The rows, as tasks read them. */
  private def many(result: JsonNode, part: LogicalPlan, holder: Table): Option[LogicalPlan] = {
    val reader = session.read.format("projseg").option(Table.OfView, result.get("view").asText)
    holder.storage.foreach { case (key, value) => reader.option(Table.Storage + key, value) }
    val stored = reader.load(result.get("location").asText).queryExecution.analyzed
    val columns = part.output.zip(stored.output).map { case (one, column) =>
      Alias(OutputRewriter.as(column, one), one.name)(one.exprId, one.qualifier)
    }
    val isAsTold =
      part.output.map(_.dataType.asNullable) == stored.output.take(part.output.size).map(_.dataType.asNullable)
    def inOrder: LogicalPlan =
      if (result.get("ordered").asBoolean) Sort(Seq(SortOrder(stored.output.last, Ascending)), global = true, stored)
      else stored
    Option.when(isAsTold)(Project(columns, inOrder))
  }
}
