package org.apache.spark.sql.projseg

import java.util.Locale

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, TableSpecBase, UnresolvedTableSpec}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.projseg.Statements.{optional, Form, Names}

/**
 * Statements about materialized views, and in CarbonData's words about data maps, which may be projections and
 * indexes too. A view is found by its name among the tables of a namespace, or by `ON TABLE t`.
 */
object StatementsOfViews {
  val Create = "create_view"

  private val create: Form = (at, names) => for {
    _ <- at.words("CREATE")
    isReplaced = at.has("OR REPLACE")
    _ <- StatementForm.nounOf(at)
    isLenient = at.has("IF NOT EXISTS")
    view <- at.name
    // CarbonData names the table of a view of several, too.
    _ <- optional(at, "ON TABLE")(at.name)
    columns = at.bracketed
    clauses <- clauses(at)
    _ <- at.words("AS")
    select <- at.rest
    tables = names.tables(select)
    if tables.nonEmpty
  } yield created(
    tables, names.parts(view), columns, select, clauses + ("replace" -> isReplaced) + ("lenient" -> isLenient))

  private val explain: Form = (at, names) =>
    if (!at.has("EXPLAIN")) None
    else create(at, names).map(made =>
      made.copy(operation = "explain_view", entry = None))

  /** What may stand before AS, in any order. */
  private def clauses(at: Cursor): Option[Map[String, Any]] = {
    var found = Map[String, Any]()
    def one(): Option[(String, Any)] =
      if (at.has("USING")) at.string.map("provider" -> _)
      else if (at.has("WITH DEFERRED REFRESH") || at.has("WITH DEFERRED REBUILD")) Some("deferred" -> true)
      else if (at.has("REFRESH ON COMMIT")) Some("deferred" -> false)
      else if (at.has("PARTITIONED BY")) at.bracketed.map("chunk" -> _)
      // The engine says why it takes neither of these.
      else if (at.has("CLUSTER BY")) at.bracketed.map("cluster_by" -> _)
      else if (at.has("LOCATION")) at.string.map("store" -> _)
      else if (at.has("COMMENT")) at.string.map("comment" -> _)
      else if (Seq("TBLPROPERTIES", "DMPROPERTIES", "PROPERTIES").exists(at.has)) at.properties.map("properties" -> _)
      else None
    var next = one()
    while (next.exists { case (name, _) => !found.contains(name) }) {
      found ++= next
      next = one()
    }
    Option.when(next.isEmpty && found.get("provider").forall(_.toString.equalsIgnoreCase("mv")))(found)
  }

  def created(
      tables: Seq[Seq[String]], view: Seq[String], columns: Option[String], select: String, said: Map[String, Any])
      : Statement = {
    val properties = said.get("properties").map(_.asInstanceOf[Map[String, String]]).getOrElse(Map.empty)
    val sql = new Select(select).inTimeSeries("").whole
    val arguments = said + ("name" -> view.last) + ("sql" -> sql) + ("properties" -> properties)
    def is(flag: String): Boolean = said.get(flag).contains(true)
    val entry = EnteredView(
      view, new Select(select).inTimeSeries("", isForSpark = true).whole, columns,
      said.get("comment").map(_.toString), is("lenient"), is("replace"), tables.distinct)
    Statement(Create, JoinedTables(tables.distinct), arguments, entry = Some(entry))
  }

  /** A view of a table that is named, or of that one of the view's namespace which has it. */
  private def subject(at: Cursor, names: Names, view: String): Option[Subject] =
    optional(at, "ON") { at.has("TABLE"); at.name }.map(_.map(names.table).getOrElse(names.view(view)))

  private def named(names: Names, kind: String, view: String): Map[String, Any] =
    Map("name" -> names.last(view), "kind" -> kind)

  private val alter: Form = (at, names) => for {
    _ <- at.words("ALTER")
    kind <- StatementForm.nounOf(at)
    view <- at.name
    of <- subject(at, names, view)
    change <- change(at, names)
    _ <- at.end
  } yield {
    val arguments = named(names, kind, view)
    if (change.contains("compact"))
      Statement("refresh_view", of, arguments ++ Map("full" -> true, "dry_run" -> false, "compact" -> true))
    else Statement(
      "alter_view", of, arguments ++ change,
      entry = change.get("rename").map(to => RenamedView(names.parts(view), to.toString, of)))
  }

  private def change(at: Cursor, names: Names): Option[Map[String, Any]] =
    if (at.has("ENABLE")) Some(Map("enabled" -> true))
    else if (at.has("DISABLE")) Some(Map("enabled" -> false))
    else if (at.has("RENAME TO")) at.name.map(name => Map("rename" -> names.last(name)))
    else if (at.has("COMPACT")) { at.string; Some(Map("compact" -> true)) }
    else if (at.has("SET TBLPROPERTIES")) at.properties.map(found => Map("set" -> found))
    else if (at.has("UNSET TBLPROPERTIES")) at.list.map(found => Map("unset" -> found.map(names.text)))
    else None

  private val show: Form = (at, names) => for {
    _ <- at.words("SHOW")
    kind <- StatementForm.nounOf(at)
    table <- optional(at, "ON") { at.has("TABLE"); at.name }
    namespace <- optional(at, "FROM", "IN")(at.name)
    if table.isEmpty || namespace.isEmpty
    like <- optional(at, "LIKE")(at.string)
    _ <- at.end
  } yield {
    val arguments = Map("kind" -> kind, "all" -> table.isDefined) ++ like.map("like" -> _)
    table.map(one => Statement("views", names.table(one), arguments))
      .getOrElse(Statement("views", EveryTable(namespace.map(names.last)), arguments))
  }

  private val drop: Form = (at, names) => for {
    _ <- at.words("DROP")
    kind <- StatementForm.nounOf(at)
    isLenient = at.has("IF EXISTS")
    view <- at.name
    of <- subject(at, names, view)
    _ <- at.end
  } yield {
    val lenient = of match {
      case TableWithView(parts, _) => TableWithView(parts, isLenient)
      case other => other
    }
    Statement(
      "drop_view", lenient, named(names, kind, view) + ("lenient" -> isLenient),
      entry = Some(DroppedView(names.parts(view), of)))
  }

  val forms: Seq[(String, Form)] =
    Seq("CREATE" -> create, "EXPLAIN" -> explain, "ALTER" -> alter, "SHOW" -> show, "DROP" -> drop)
}

/** Refuses CREATE MATERIALIZED VIEW of what is no view of projseg: a session of Spark makes no other. */
object RefusedViews extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (plan.getClass.getSimpleName == "CreateMaterializedViewAsSelect" && plan.childrenResolved)
      throw refusal(plan.productIterator.exists {
      case table: TableSpecBase => table.provider.isDefined
      case _ => false
    })
    else plan

  def refusal(hasProvider: Boolean): Exception = ProjsegError.of("PROJSEG_VIEW_TABLE",
    if (hasProvider) "a materialized view has the form of its table's own views: leave USING out"
    else "the SELECT reads no projseg table, and views are of these: import what it reads, or leave it to the queries")
}

/**
 * CREATE MATERIALIZED VIEW over a projseg table, which Spark's parser since 4.1 takes for a pipeline's. A pipeline
 * takes the plan from the parser, so it is this only where a session runs the statement itself.
 */
class CreateViews(session: SparkSession) extends Rule[LogicalPlan] {
  private lazy val locations = new Locations(session.asInstanceOf[ClassicSession])

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (plan.getClass.getSimpleName != "CreateMaterializedViewAsSelect") plan
    else plan.productIterator.toSeq match {
      case Seq(UnresolvedIdentifier(parts, _), columns: Seq[_], chunk: Seq[_], table: TableSpecBase, _, select: String,
          isLenient: Boolean)
          if table.provider.isEmpty =>
        val said = Map("lenient" -> isLenient, "replace" -> false, "properties" -> properties(table)) ++
          table.comment.map("comment" -> _) ++ chunk.headOption.map(_.asInstanceOf[Transform]).map(one =>
            (if (one.name == "cluster_by") "cluster_by" else "chunk") -> one.describe)
        val tables = new Names(session.asInstanceOf[ClassicSession].sessionState.sqlParser).tables(select)
        val made = StatementsOfViews.created(tables, parts, named(columns), select, said)
        if (tables.nonEmpty && locations.isKnown(made.subject)) made else plan
      case _ => plan
    }

  /** A list of columns as it is written; Spark has read their names, which may have types only in a pipeline. */
  private def named(columns: Seq[_]): Option[String] = Option.when(columns.nonEmpty)(columns.map { column =>
    val said = column.asInstanceOf[Product]
    val name = said.productElement(said.productElementNames.indexOf("name")).toString
    val comment = said.productElement(said.productElementNames.indexOf("comment")) match {
      case Some(text) => s" COMMENT ${CatalogViews.quoted(text.toString)}"
      case _ => ""
    }
    SqlText.quoted(name) + comment
  }.mkString(", "))

  private def properties(table: TableSpecBase): Map[String, String] = table match {
    case written: UnresolvedTableSpec => written.properties ++ written.optionExpression.options.collect {
      case (name, Literal(value, _)) if value != null => name -> value.toString
    }
    case other => other.properties
  }
}
