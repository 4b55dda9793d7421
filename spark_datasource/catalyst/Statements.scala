package org.apache.spark.sql.projseg

import java.lang.reflect.{InvocationTargetException, Method, Proxy}

import scala.util.matching.Regex

import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.SparkException
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/** SQL statements about projections, segments and versions; all others are the parser's below. */
object Statements {
  private val name = "((?:`(?:[^`]|``)*`|[\\w.])+)"
  private val end = "\\s*;?\\s*"
  private def statement(text: String): Regex = ("(?is)\\s*" + text.replace(" ", "\\s+") + end).r

  private val showProjections = statement(s"SHOW PROJECTIONS (?:FROM|IN) $name")
  private val showSegments = statement(s"SHOW SEGMENTS (?:FROM|IN) $name")
  private val history = statement(s"DESC(?:RIBE)? HISTORY $name")
  private val add =
    statement(s"ALTER TABLE $name ADD PROJECTION (IF NOT EXISTS )?$name AS").regex.stripSuffix(end) + "\\s*\\((.*)\\)" + end
  private val addProjection = add.r
  private val dropProjection = statement(s"ALTER TABLE $name DROP PROJECTION (IF EXISTS )?$name")

  /** Returns the statement of a text, or None if it is not one of these. */
  def of(text: String, parser: ParserInterface): Option[LogicalPlan] = {
    def table(written: String): Seq[String] = parser.parseMultipartIdentifier(written)
    def single(written: String): String = parser.parseMultipartIdentifier(written).mkString(".")
    text match {
      case showProjections(written) => Some(Statement("projections", table(written), Map.empty, projections))
      case showSegments(written) => Some(Statement("segments", table(written), Map.empty, segments))
      case history(written) => Some(Statement("history", table(written), Map.empty, versions))
      case addProjection(written, lenient, projection, select) =>
        val given = Map("name" -> single(projection), "sql" -> select.trim, "lenient" -> (lenient != null).toString)
        Some(Statement("add_projection", table(written), given, version))
      case dropProjection(written, lenient, projection) =>
        val given = Map("name" -> single(projection), "lenient" -> (lenient != null).toString)
        Some(Statement("drop_projection", table(written), given, version))
      case _ => None
    }
  }

  private val projections =
    "name STRING, group_by STRING, aggregators STRING, filter STRING, segments BIGINT, segments_missing BIGINT, " +
      "rows BIGINT, bytes BIGINT"
  private val segments =
    "segment STRING, min_time TIMESTAMP, max_time TIMESTAMP, rows BIGINT, bytes BIGINT, projections STRING"
  private val versions = "version BIGINT, timestamp TIMESTAMP, operation STRING, rows BIGINT, bytes BIGINT"
  private val version = "version BIGINT"

  /** Returns a parser that knows these statements. Releases add methods, which a proxy passes on. */
  def parser(below: ParserInterface): ParserInterface = {
    val known = (proxy: Any, method: Method, arguments: Array[AnyRef]) => {
      val isStatement = method.getName == "parsePlan" || method.getName == "parsePlanWithParameters"
      val found =
        if (isStatement && new Settings(SQLConf.get).isEnabled)
          of(arguments(0).asInstanceOf[String], below)
        else None
      found.getOrElse {
        try method.invoke(below, Option(arguments).getOrElse(Array.empty[AnyRef]): _*)
        catch { case error: InvocationTargetException => throw error.getCause }
      }
    }
    Proxy.newProxyInstance(
      getClass.getClassLoader, Array[Class[_]](classOf[ParserInterface]),
      (proxy, method, arguments) => known(proxy, method, arguments).asInstanceOf[AnyRef]).asInstanceOf[ParserInterface]
  }
}

/** One of these statements; `columns` is what it returns, as DDL. */
case class Statement(operation: String, table: Seq[String], arguments : Map[String, String], columns: String)
    extends LeafRunnableCommand {
  private val returned = StructType.fromDDL(columns)
  override val output: Seq[Attribute] =
    returned.map(field => AttributeReference(field.name, field.dataType, field.nullable)())

  override def run(session: SparkSession): Seq[Row] = {
    val settings = new Settings(session.asInstanceOf[ClassicSession].sessionState.conf)
    val request: ObjectNode = Engine.json.createObjectNode()
    request.put("op", operation).put("location", location(session.asInstanceOf[ClassicSession]))
    arguments.foreach { case (name, value) => request.put(name, value) }
    val reply = Engine.ask(settings.python, request, isRepeatable = false).getOrElse(
      throw failed("projseg's engine process ended or could not start; look at the table before you repeat a change"))
    reply.error.foreach(message => throw failed(s"[${reply.code}] $message"))
    val toRow = CatalystTypeConverters.createToScalaConverter(returned)
    Engine.rowsOf(reply.rows, returned).map(row => toRow(row).asInstanceOf[Row])
  }

  private def location(session: ClassicSession): String = table match {
    case Seq("projseg", path) => path
    case parts if parts.length <= 2 =>
      val identifier = TableIdentifier(parts.last, parts.dropRight(1).headOption)
      session.sessionState.catalog.getTableMetadata(identifier).location.toString
    case parts => throw failed(s"${parts.mkString(".")} is not a table of Spark's own catalog, nor projseg.`path`")
  }

  private def failed(message: String): Exception = new SparkException(message)
}
