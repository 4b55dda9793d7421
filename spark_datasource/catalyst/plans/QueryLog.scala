package org.apache.spark.sql.projseg

import java.time.Instant
import java.time.temporal.ChronoUnit.MICROS
import java.util.concurrent.{ArrayBlockingQueue, ThreadPoolExecutor, TimeUnit}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ArrayNode

import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.types.{DoubleType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * What was asked of projseg tables while statements were planned: in the driver's memory, the latest
 * of all sessions. What is shown has no literals of the statements, unless a session asks for them.
 */
object QueryLog {
  case class Entry(
      micros: Long, location: String, version: Option[Long], request: Option[String], answered: String,
      sources: Option[String], reasons: Option[String], rows: Option[Long], bytes: Option[Long],
      planning: Option[Double], answering: Option[Double], asked: Option[JsonNode] = None,
      content: Option[JsonNode] = None)

  private val entries = new java.util.ArrayDeque[Entry]()

  def add(more: Iterable[Entry], most: Int): Unit = entries.synchronized {
    more.foreach(entries.addLast)
    while (entries.size > most) entries.removeFirst()
  }

  /** Writes files, so that no statement waits for one; what comes too fast is dropped. */
  private val writer = new ThreadPoolExecutor(
    1, 1, 0L, TimeUnit.MILLISECONDS, new ArrayBlockingQueue[Runnable](1000), (task: Runnable) => {
      val thread = new Thread(task, "projseg query log")
      thread.setDaemon(true)
      thread
    }, new ThreadPoolExecutor.DiscardPolicy)

  /** Lets the engine write records of entries into a folder. */
  def write(more: Seq[Entry], folder: String, literals: Boolean, python: String): Unit = if (more.nonEmpty) {
    val request = Engine.json.createObjectNode().put("op", "log").put("folder", folder).put("literals", literals)
    describe(request.putArray("entries"), more)
    val task: Runnable = () => Engine.ask(python, request, isRepeatable = false)
    writer.execute(task)
  }

  /** What was asked, as the advisor takes it: a list in JSON, with literals, that is shown nowhere. */
  def requests(): String = {
    val list = Engine.json.createArrayNode()
    describe(list, entries.synchronized(entries.asScala.toSeq))
    Engine.json.writeValueAsString(list)
  }

  private def describe(list: ArrayNode, more: Seq[Entry]): Unit =
    more.foreach { one =>
      val made = list.addObject().put("answered", one.answered).put("location", one.location).put("micros", one.micros)
      one.version.foreach(made.put("version", _))
      one.planning.foreach(made.put("planning", _))
      one.answering.foreach(made.put("answering", _))
      one.asked.foreach(made.set[JsonNode]("request", _))
      one.content.foreach(made.set[JsonNode]("content", _))
      if (one.answered == "not") one.reasons.foreach(made.put("reason", _))
    }

  private val schema = StoredType.columns(
    "time TIMESTAMP, location STRING, version BIGINT, request STRING, answered STRING, sources STRING, " +
      "reasons STRING, rows BIGINT, bytes BIGINT").add("planning_milliseconds", DoubleType)
    .add("answering_milliseconds", DoubleType)

  private def relation(arguments: Seq[Expression]): LogicalPlan = {
    require(arguments.isEmpty, "projseg_query_log takes no arguments; filter what it returns")
    val listed = entries.synchronized(entries.asScala.toSeq)
    val output = schema.map(field => AttributeReference(field.name, field.dataType, field.nullable)())
    LocalRelation(output, listed.map { one =>
      def text(value: Option[String]): Any = value.map(UTF8String.fromString).orNull
      InternalRow(
        one.micros, UTF8String.fromString(one.location), one.version.orNull[Any], text(one.request),
        UTF8String.fromString(one.answered), text(one.sources), text(one.reasons), one.rows.orNull[Any],
        one.bytes.orNull[Any], one.planning.orNull[Any], one.answering.orNull[Any])
    })
  }

  /** `SELECT * FROM projseg_query_log()`. */
  val function: (FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan) = (
    FunctionIdentifier("projseg_query_log"),
    new ExpressionInfo(getClass.getName, "projseg_query_log"),
    relation)

  private val literal =
    "(`(?:[^`]|``)*`)|(?:DATE|TIMESTAMP_NTZ|TIMESTAMP)?'(?:[^'\\\\]|\\\\.)*'|(?<!\\w)-?\\d[\\w.]*|\\b(?:TRUE|FALSE)\\b".r
  private val cast = "CAST\\(\\? AS \\w+(?:\\(\\?(?:, ?\\?)?\\))?\\)".r
  private val list = "\\bIN \\(\\?(?:, \\?)+\\)".r

  /** An expression's text with `?` for each literal, and one for all of a list. */
  def withoutLiterals(text: String): String = {
    val hidden = literal.replaceAllIn(text, found => if (found.group(1) == null) "?" else escaped(found.matched))
    list.replaceAllIn(cast.replaceAllIn(hidden, "?"), "IN (?)")
  }

  private def escaped(text: String): String = java.util.regex.Matcher.quoteReplacement(text)
}

/** The requests about queries of one statement, and what became of them. */
class Planned(settings: Settings) {
  private var entries = Vector[QueryLog.Entry]()
  private val texts = Set("filter", "group_by", "aggregators", "columns", "order_by", "having")

  /** Adds a request and its reply, which took so long. */
  def add(request: JsonNode, reply: Either[Refusal, Reply], nanos: Long): Unit = {
    val content = reply.toOption.map(_.content).filter(_.has("plan"))
    def number(name: String) = content.flatMap(one => Option(one.get(name))).map(_.asDouble)
    val answering = number("milliseconds")
    val refused =
      content.toSeq.flatMap(_.get("refused").properties().asScala.map(one => s"${one.getKey}: ${one.getValue.asText}"))
    val isAnswered = content.exists(one => one.has("answered") && one.get("answered").asBoolean)
    val answered =
      if (content.isEmpty) "not" else if (isAnswered) "planted"
      else if (request.get("op").asText == "scan") "scanned" else "shared"
    // Of joined tables, the reply says whose rows are grouped.
    def said(name: String) = content.filter(_.has("star")).getOrElse(request) match {
      case one if one.has(name) => Some(one.get(name))
      case _ => Option(request.get(name))
    }
    val reasons = refused ++ reply.left.toOption.map(worded)
    entries :+= QueryLog.Entry(
      now(), said("location").get.asText, said("version").map(_.asLong),
      Some(shown(content.flatMap(one => Option(one.get("query"))).getOrElse(request.get("query")))), answered,
      content.map(_.get("sources").properties().asScala.map(one =>
        s"${one.getValue.asLong} x ${one.getKey}").mkString(", ")),
      if (reasons.isEmpty) None else Some(reasons.mkString("; ")),
      number("rows").map(_.toLong), number("bytes").map(_.toLong), Some(nanos / 1e6 - answering.getOrElse(0.0)),
      answering,
      Some(request.deepCopy[JsonNode]()), content)
  }

  /** Does something with a table's part of a plan; if it is left to Spark, its requests were in vain. */
  def attempt[T](tables: => Seq[Table])(run: => Either[Refusal, T]): Either[Refusal, T] = {
    val before = entries.size
    val result = run
    result.left.foreach { refusal =>
      val reason = Some(worded(refusal))
      entries =
        if (entries.size > before)
          entries.take(before) ++ entries.drop(before).map(_.copy(answered = "not", reasons = reason))
        else entries ++ tables.map(table => QueryLog.Entry(
          now(), table.location, table.version, None, "not", None, reason, None, None, None, None))
    }
    result
  }

  def publish(): Unit = {
    settings.logPath.foreach(QueryLog.write(entries, _, settings.logLiterals, settings.python))
    // Of the reply, the query alone: the engine may have written it otherwise than it was asked.
    def queryOf(content: JsonNode): Option[JsonNode] =
      Option(content.get("query")).map(Engine.json.createObjectNode().set[JsonNode]("query", _))
    QueryLog.add(entries.map(one => one.copy(content = one.content.flatMap(queryOf))), settings.logQueries)
  }

  private def now(): Long = MICROS.between(Instant.EPOCH, Instant.now())

  private def worded(refusal: Refusal): String = if (settings.logLiterals) refusal.toString else refusal.coded

  private def shown(query: JsonNode): String = {
    val copy: JsonNode = query.deepCopy[JsonNode]()
    if (!settings.logLiterals) copy.properties().asScala.filter(one => texts.contains(one.getKey)).foreach { one =>
      def hidden(text: JsonNode) = Engine.json.getNodeFactory.textNode(QueryLog.withoutLiterals(text.asText))
      one.setValue(one.getValue match {
        case list if list.isArray =>
          val all = Engine.json.createArrayNode()
          list.elements().forEachRemaining(text => all.add(hidden(text)))
          all
        case text => hidden(text)
      })
    }
    Engine.json.writeValueAsString(copy)
  }
}
