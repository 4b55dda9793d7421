package org.apache.spark.sql.projseg

import java.lang.reflect.{InvocationTargetException, Method, Proxy}
import java.util.Locale

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.antlr.v4.runtime.{CharStream, CharStreams, CommonToken, ParserRuleContext, TokenSource}
import org.antlr.v4.runtime.misc.Pair
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{UnresolvedRelation, UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.{DescribeColumn, LogicalPlan, UnresolvedWith}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}

/** SQL statements about projections, segments and versions; all others are the parser's below. */
object Statements {
  val Restore = "restore"
  /** Statements about a table that are about its definition too, where it has one. */
  val ofDefinitions = Set("add_projection", "drop_projection")

  /** Returns a parser that knows these statements. Releases add methods, which a proxy passes on. */
  def parser(session: SparkSession, below: ParserInterface): ParserInterface = {
    def answered(method: Method, arguments: Array[AnyRef]): AnyRef = {
      def passed(): AnyRef =
        try method.invoke(below, Option(arguments).getOrElse(Array.empty[AnyRef]): _*)
        catch { case error: InvocationTargetException => throw declared(error.getCause, arguments(0).toString) }
      def plan(): LogicalPlan = passed().asInstanceOf[LogicalPlan]
      val isPlan = method.getName == "parsePlan" || method.getName == "parsePlanWithParameters"
      if (!isPlan) passed()
      else of(arguments(0).asInstanceOf[String], below).map(chosen(_, session, plan)).getOrElse(plan())
    }
    Proxy.newProxyInstance(
      getClass.getClassLoader, Array[Class[_]](classOf[ParserInterface]),
      (_, method, arguments) => answered(method, arguments)).asInstanceOf[ParserInterface]
  }

  /**
   * What a proxy of a parser may throw of a text: other errors of analysis, as of a parameter
   * without a value, would reach users wrapped.
   */
  private def declared(error: Throwable, text: String): Throwable = error match {
    case other: AnalysisException if !other.isInstanceOf[ParseException] && other.getCondition != null =>
      val context = new ParserRuleContext()
      val source = new Pair[TokenSource, CharStream](null, CharStreams.fromString(text))
      context.start = new CommonToken(source, 1, 0, 0, text.length - 1)
      context.stop = context.start
      new ParseException(other.getCondition, other.getMessageParameters.asScala.toMap, context)
    case other => other
  }

  /** A statement if it names a projseg table, or no parser below knows it; else what that one makes of the text. */
  private def chosen(statement: Statement, session: SparkSession, below: () => LogicalPlan): LogicalPlan = {
    val classic = session.asInstanceOf[ClassicSession]
    // Pipelines take their plans from the parser; `CreateViews` takes those that are not theirs.
    val isOfPipelines = statement.operation == StatementsOfViews.Create
    if (!isOfPipelines && new Locations(classic).isKnown(statement.subject)) statement
    else try below() match {
      // Spark reads DESCRIBE HISTORY t as column t of a table HISTORY.
      case column: DescribeColumn if !isKnown(column.relation, classic) => statement
      case other => other
    } catch { case _: ParseException => statement }
  }

  private def isKnown(relation: LogicalPlan, session: ClassicSession): Boolean = relation match {
    case named: UnresolvedTableOrView =>
      val catalog = session.sessionState.catalog
      catalog.isTempView(named.multipartIdentifier) ||
        catalog.tableExists(TableIdentifier(named.multipartIdentifier.last))
    case _ => true
  }

  /** Returns the statement of a text, or None if it is not one of these. */
  def of(text: String, parser: ParserInterface): Option[Statement] = {
    val tokens = SqlTokens.of(text)
    val forms = tokens.headOption.map(_.text.toUpperCase(Locale.ROOT)).flatMap(byFirstWord.get).getOrElse(Nil)
    val names = new Names(parser)
    forms.iterator.flatMap(form => form(new Cursor(text, tokens), names)).nextOption()
  }

  /** What names mean. */
  class Names(parser: ParserInterface) {
    def parts(written: String): Seq[String] = parser.parseMultipartIdentifier(written)

    /** The tables that a SELECT reads, as often as it names them; none of a text that Spark cannot read. */
    def tables(select: String): Seq[Seq[String]] = Try(parser.parsePlan(select)).map { plan =>
      val (named, own) = (relations(plan), ctes(plan))
      named.filterNot(parts => parts.size == 1 && own.exists(_.equalsIgnoreCase(parts.head)))
    }.getOrElse(Nil)

    private def relations(value: Any): Seq[Seq[String]] = value match {
      case relation: UnresolvedRelation => Seq(relation.multipartIdentifier)
      case other => within(other).flatMap(relations)
    }

    private def ctes(value: Any): Seq[String] = {
      val own = value match {
        case named: UnresolvedWith => named.cteRelations.map(_.asInstanceOf[Product].productElement(0).toString)
        case _ => Nil
      }
      own ++ within(value).flatMap(ctes)
    }

    private def within(value: Any): Seq[Any] = value match {
      case list: Iterable[_] => list.toSeq
      case product: Product => product.productIterator.toSeq
      case _ => Nil
    }

    def table(written: String): Subject = NamedTable(parts(written))
    def view(written: String): Subject = TableWithView(parts(written))
    def definition(written: String): Subject = NamedDefinition(parts(written))
    def single(written: String): String = parts(written).mkString(".")
    def last(written: String): String = parts(written).last
    def text(written: String): String = new Cursor(written, SqlTokens.of(written)).string.getOrElse(single(written))
  }

  type Form = (Cursor, Names) => Option[Statement]

  private val addProjection: Form = (at, names) => for {
    _ <- at.words("ALTER TABLE")
    table <- at.name
    _ <- at.words("ADD PROJECTION")
    isLenient = at.has("IF NOT EXISTS")
    projection <- at.name
    _ = at.has("AS")
    select <- at.bracketed
    isDeferred = at.has("DEFERRED")
    _ <- at.end
  } yield {
    val sql = new Select(select).without(table)
    val arguments = Map("name" -> names.single(projection), "sql" -> sql, "lenient" -> isLenient)
    Statement("add_projection", names.table(table), arguments ++ build(isDeferred))
  }

  // ---- CarbonData's form of a view of one table by the table's name, which is a projection

  private def view(at: Cursor): Option[Unit] =
    if (Seq("MATERIALIZED VIEW", "MATERIALIZED VIEWS", "DATAMAP").exists(at.has)) Some(()) else None

  private def viewOfTable(at: Cursor): Option[(String, String)] = for {
    projection <- at.name
    _ <- at.words("ON TABLE")
    table <- at.name
  } yield (projection, table)

  private val createView: Form = (at, names) => for {
    _ <- at.words("CREATE")
    _ <- view(at)
    isLenient = at.has("IF NOT EXISTS")
    (projection, table) <- viewOfTable(at)
    provider <- optional(at, "USING")(at.string)
    if provider.forall(one => Set("mv", "preaggregate", "timeseries").contains(one.toLowerCase(Locale.ROOT)))
    isDeferred = at.has("WITH DEFERRED REBUILD") || at.has("WITH DEFERRED REFRESH")
    properties <- optional(at, "DMPROPERTIES", "PROPERTIES")(at.bracketed)
    _ <- at.words("AS")
    select <- at.rest
    if names.tables(select).size < 2 // else it is a view of its own
  } yield {
    val sql = new Select(select).inTimeSeries(properties.getOrElse("")).without(table)
    val arguments = Map("name" -> names.single(projection), "sql" -> sql, "lenient" -> isLenient)
    Statement("add_projection", names.table(table), arguments ++ build(isDeferred, isBuiltNow = true))
  }

  /** What stands behind one of these words, if one of them comes next; None if something else does. */
  def optional[T](at: Cursor, openings: String*)(read: => Option[T]): Option[Option[T]] =
    if (openings.exists(at.has)) read.map(Some(_)) else Some(None)

  private def build(isDeferred: Boolean, isBuiltNow: Boolean = false): Map[String, Any] =
    Map("build" -> (if (isDeferred) "deferred" else "immediate"), "materialize" -> (isBuiltNow && !isDeferred))

  private lazy val byFirstWord: Map[String, Seq[Form]] = {
    val listed = StatementForm.all.flatMap(one => one.openings.map(_ -> (one.read _ : Form)))
    val own = Seq[(String, Form)]("ALTER" -> addProjection, "CREATE" -> createView)
    (listed ++ own ++ StatementsOfIndexes.forms ++ StatementsOfViews.forms ++ StatementsOfDefinitions.forms)
      .groupMap(_._1)(_._2)
  }
}
