package org.apache.spark.sql.projseg

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog}

/** What becomes of the view in Spark's own catalog that stands for a materialized view. */
sealed trait ViewChange { def parts: Seq[String] }
case class EnteredView(
    parts: Seq[String], select: String, columns: Option[String], comment: Option[String], isLenient: Boolean,
    isReplaced: Boolean,
    tables: Seq[Seq[String]]) extends ViewChange
case class DroppedView(parts: Seq[String], of: Subject) extends ViewChange
case class RenamedView(parts: Seq[String], to: String, of: Subject) extends ViewChange

/**
 * Materialized views as views of Spark's own catalog: `SELECT * FROM v` is the definition, answered from its parts
 * as far as they go. Sessions without the extension compute it.
 */
class CatalogViews(session: ClassicSession) extends LookupCatalog {
  import CatalogViews._

  override protected val catalogManager: CatalogManager = session.sessionState.catalogManager
  private val catalog = session.sessionState.catalog
  private lazy val locations = new Locations(session)

  /** The entry of a materialized view's name; None if there is none, or it is something else. */
  def entry(parts: Seq[String]): Option[CatalogTable] =
    found(parts).filter(one => one.tableType == CatalogTableType.VIEW && one.properties.contains(Place))

  /** Where the table is that has a view. */
  def location(parts: Seq[String]): Option[String] = entry(parts).map(_.properties(Place))

  /** Refuses a name that something else has, or the view of another table. */
  def check(change: ViewChange): Unit = change match {
    case made: EnteredView => found(made.parts).foreach { _ =>
      val mayGo = entry(made.parts).exists { one =>
        val place = one.properties(Place)
        made.tables.exists(locations.isAt(_, place)) || isLeft(one, place) || !locations.holds(place, made.parts.last)
      }
      if (!mayGo) throw taken(made.parts)
    }
    case RenamedView(parts, to, _) =>
      val other = parts.dropRight(1) :+ to
      if (entry(parts).isDefined && found(other).isDefined) throw taken(other)
    case _ =>
  }

  /** Makes the catalog follow; `undo` takes back a view that it cannot have. */
  def follow(change: ViewChange, undo: () => Unit): Unit = change match {
    case made: EnteredView if identifier(made.parts).isDefined =>
      try {
        val place = locations.holder(made.parts.last, made.tables)
        if (!made.isLenient || !location(made.parts).contains(place)) enter(made, place)
      } catch { case NonFatal(error) => undo(); throw error }
    case DroppedView(parts, of) if isOf(parts, of) => session.sql(s"DROP VIEW ${written(parts)}")
    case RenamedView(parts, to, of) if isOf(parts, of) =>
      session.sql(s"ALTER VIEW ${written(parts)} RENAME TO ${written(parts.dropRight(1) :+ to)}")
    case _ =>
  }

  /** Whether the tables of a view are no longer where its parts are: they were dropped. */
  private def isLeft(entry: CatalogTable, place: String): Boolean =
    !new Statements.Names(session.sessionState.sqlParser).tables(entry.viewText.getOrElse("")).exists { parts =>
      val whole = if (parts.size == 1) entry.viewCatalogAndNamespace ++ parts else parts
      locations.isAt(whole, place)
    }

  private def isOf(parts: Seq[String], subject: Subject): Boolean = location(parts).exists { place =>
    subject match {
      case NamedTable(table) => locations.isAt(table, place)
      case _ => true
    }
  }

  private def enter(made: EnteredView, place: String): Unit = {
    val comment = made.comment.map(text => s" COMMENT ${quoted(text)}").getOrElse("")
    val columns = made.columns.getOrElse(names(made.select).map(SqlText.quoted).mkString(", "))
    // The list names all columns, so an expression needs no alias.
    val before = session.conf.getOption(Unnamed)
    session.conf.set(Unnamed, "true")
    try session.sql(
      s"CREATE OR REPLACE VIEW ${written(made.parts)} ($columns)$comment TBLPROPERTIES (${quoted(Place)} = ${quoted(place)}) " +
        s"AS ${made.select}")
    finally before.fold(session.conf.unset(Unnamed))(session.conf.set(Unnamed, _))
  }

  /** The names of a SELECT's columns, each once. */
  private def names(select: String): Seq[String] = {
    val all = session.sql(select).schema.fieldNames.toSeq
    all.zipWithIndex.map { case (name, index) =>
      val before = all.take(index).count(_.equalsIgnoreCase(name))
      if (before == 0) name else s"${name}_${before + 1}"
    }
  }

  private def found(parts: Seq[String]): Option[CatalogTable] =
    identifier(parts).filter(catalog.tableExists).map(catalog.getTableMetadata)

  private def identifier(parts: Seq[String]): Option[TableIdentifier] = parts match {
    case SessionCatalogAndIdentifier(_, name) => Try(name.asTableIdentifier).toOption
    case _ => None
  }

  private def taken(parts: Seq[String]): Exception = ProjsegError.of(
    "PROJSEG_VIEW_EXISTS", s"${written(parts)} is a table or a view of the catalog already; take another name")
}

object CatalogViews {
  /** The property that says in which table's folder the parts are. */
  val Place = "projseg.table"
  private val Unnamed = "spark.sql.legacy.allowAutoGeneratedAliasForView"

  def written(parts: Seq[String]): String = parts.map(SqlText.quoted).mkString(".")

  def quoted(text: String): String = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
}

/** Refuses writes to a materialized view, whose rows are its definition's. */
class ReadOnlyViews(session: SparkSession) extends Rule[LogicalPlan] {
  private lazy val views = new CatalogViews(session.asInstanceOf[ClassicSession])

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case insert: InsertIntoStatement => insert.table.foreach(refuse)
      case other => refuse(other)
    }
    plan
  }

  private def refuse(plan: LogicalPlan): Unit = plan match {
    case named: UnresolvedRelation if named.options.containsKey(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES) =>
      if (views.entry(named.multipartIdentifier).isDefined) throw ProjsegError.of(
        "PROJSEG_VIEW_READ_ONLY",
        s"${CatalogViews.written(named.multipartIdentifier)} is a materialized view: write to the tables that it reads")
    case _ =>
  }
}
