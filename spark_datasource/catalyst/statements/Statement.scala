package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, LookupCatalog, TableCatalog}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.StructType

/** The table that a statement is about. */
sealed trait Subject
case class NamedTable(parts: Seq[String]) extends Subject
case class AtLocation(location: String) extends Subject
/** Tables that a SELECT joins, by their names in it. */
case class JoinedTables(names: Seq[Seq[String]]) extends Subject
/** Each projseg table of a namespace, or of the current one; its name comes first in what is returned. */
case class EveryTable(namespace: Option[String] = None) extends Subject
/**
 * That table of the view's namespace, or of the current one, which has the view; none is no error
 * if that is lenient.
 */
case class TableWithView(parts: Seq[String], isLenient: Boolean = false) extends Subject

/** A definition of a catalog, whose table need not be there. */
case class NamedDefinition(parts: Seq[String]) extends Subject

/**
 * An operation of the engine on a table, run as a command. One that is limited takes no longer than
 * `spark.projseg.local.timeout`. `entry` is what becomes of the view in the catalog.
 */
case class Statement(
    operation: String, subject: Subject, arguments: Map[String, Any], isLimited: Boolean = false,
    entry: Option[ViewChange] = None)
    extends LeafRunnableCommand {
  private val returned = StoredType.columns(
    (if (subject.isInstanceOf[EveryTable]) "table STRING, " else "") +
      SharedLists.reply(operation, arguments.get("dry_run").contains(true)))
  override val output: Seq[Attribute] =
    returned.map(field => AttributeReference(field.name, field.dataType, field.nullable)())

  override def run(session: SparkSession): Seq[Row] = {
    val classic = session.asInstanceOf[ClassicSession]
    val views = new CatalogViews(classic)
    entry.foreach(views.check)
    val found = done(classic)
    entry.foreach(views.follow(_, () => undone(classic)))
    found
  }

  /** Drops the view that was made, which the catalog cannot have. */
  private def undone(session: ClassicSession): Unit = copy(
    operation = "drop_view",
    arguments = Map("name" -> arguments("name"), "kind" -> "MATERIALIZED VIEW", "lenient" -> true),
    entry = None).run(session)

  private def done(classic: ClassicSession): Seq[Row] = {
    val tables = new Locations(classic)
    subject match {
      case NamedTable(parts) if Statements.ofDefinitions(operation) && tables.isDefined(parts) =>
        val (catalog, name) = tables.definition(parts)
        Seq(Row(catalog.act(s"defined_$operation", name, arguments)))
      case NamedTable(parts) =>
        val made = rows(classic, tables.of(parts), returned)
        if (operation == Statements.Restore) ChangedEntry.follow(classic, parts)
        made
      case NamedDefinition(parts) =>
        val (catalog, name) = tables.definition(parts)
        Seq(Row(catalog.act(operation, name, arguments)))
      case AtLocation(location) => rows(classic, location, returned)
      case JoinedTables(names) =>
        val places = names.map(parts => parts.mkString(".") -> tables.joined(parts))
        val joined = copy(arguments = arguments + ("tables" -> places.toMap))
        joined.rows(classic, places.head._2, returned)
      case TableWithView(parts, isLenient) =>
        val found = tables.having(parts)
        if (found.isEmpty && isLenient) Nil else rows(classic, tables.only(parts, found), returned)
      case EveryTable(namespace) => tables.all(namespace).flatMap { case (name, location) =>
        listed(classic, location).map(row => Row.fromSeq(name +: row.toSeq))
      }
    }
  }

  /**
   * The rows of one table among others: none if nobody has written to it, and the error of a
   * damaged one in place of a name.
   */
  private def listed(session: ClassicSession, location: String): Seq[Row] =
    try rows(session, location, StructType(returned.tail)) catch {
      case error: IllegalArgumentException if error.getMessage.startsWith("[PROJSEG_NOT_A_TABLE]") => Nil
      case error: IllegalArgumentException if error.getMessage.startsWith("[PROJSEG_") =>
        Seq(Row.fromSeq(error.getMessage +: returned.drop(2).map(_ => null)))
    }

  private def rows(session: ClassicSession, location: String, schema: StructType): Seq[Row] = {
    val settings = new Settings(session.sessionState.conf)
    val request =
      Engine.request(operation, arguments ++ Map("location" -> location, "small_bytes" -> settings.smallBytes))
    val jobs = new SegmentJobs(session)
    val reply = Edit.reply(settings, request, Option.when(isLimited)(settings.localMillis), Some(jobs))
    val toRow = CatalystTypeConverters.createToScalaConverter(schema)
    reply.packed(schema).rows.map(row => toRow(row).asInstanceOf[Row]).toSeq
  }
}

/** Where the tables that a statement names lie. */
private class Locations(session: ClassicSession) extends LookupCatalog {
  override protected val catalogManager: CatalogManager = session.sessionState.catalogManager

  def of(parts: Seq[String]): String = parts match {
    case ByPath(path) => path
    case _ if session.sessionState.catalog.isTempView(parts) => throw ProjsegError.of(
      "PROJSEG_NOT_A_TABLE", s"${shown(parts)} is a temporary view; name the table that it reads")
    case SessionCatalogAndIdentifier(_, name) =>
      val table = name.asTableIdentifier // with a namespace of one part, or Spark's own refusal
      if (isOfOthers(table, name)) throw other(parts)
      val entry = session.sessionState.catalog.getTableMetadata(table)
      if (!Table.isOfProjseg(entry)) throw other(parts)
      entry.location.toString
    case NonSessionCatalogAndIdentifier(catalog: TableCatalog, name) =>
      val properties = catalog.loadTable(name).properties
      if (!"projseg".equalsIgnoreCase(properties.get(TableCatalog.PROP_PROVIDER))) throw other(parts)
      properties.get(TableCatalog.PROP_LOCATION)
    case _ => throw other(parts)
  }

  /** The catalog of definitions that a name is of. */
  def definition(parts: Seq[String]): (ProjsegCatalog, Identifier) = parts match {
    case NonSessionCatalogAndIdentifier(catalog: ProjsegCatalog, name) if catalog.isOfDefinitions => (catalog, name)
    case _ => throw ProjsegError.of("PROJSEG_UNKNOWN_TABLE",
      s"${shown(parts)} is no name of a catalog of definitions, which has spark.sql.catalog.<name>.uri")
  }

  def isDefined(parts: Seq[String]): Boolean = Try(definition(parts)).isSuccess

  /** Whether a statement is about projseg tables, and not about what another extension knows. */
  def isKnown(subject: Subject): Boolean = subject match {
    case NamedTable(parts) => Try(of(parts)).isSuccess
    case NamedDefinition(parts) => isDefined(parts)
    case JoinedTables(names) => names.exists(parts => Try(of(parts)).isSuccess || isOfView(parts))
    case TableWithView(parts, _) => Try(having(parts)).toOption.exists(_.nonEmpty)
    case _ => true
  }

  /** As `of`, of a table in a view's SELECT. */
  def joined(parts: Seq[String]): String = Try(of(parts)).getOrElse(throw ProjsegError.of(
    "PROJSEG_VIEW_TABLE",
    if (isOfView(parts)) s"${shown(parts)} is a materialized view, and no other reads one: name the tables that it reads"
    else s"${shown(parts)} is not a projseg table, and views are of these: import it, or leave it to the queries"))

  private def isOfView(parts: Seq[String]): Boolean =
    Try(new CatalogViews(session).location(parts)).toOption.flatten.isDefined

  /**
   * The tables that have a view: as the catalog says, or those of its namespace or the current one;
   * with their names.
   */
  def having(parts: Seq[String]): Seq[(String, String)] =
    new CatalogViews(session).location(parts).map(place => Seq(place -> place)).getOrElse(among(parts))

  private def among(parts: Seq[String]): Seq[(String, String)] = {
    val found = all(parts.dropRight(1).lastOption)
    holders(parts.last, found.map(_._2)).map(found)
  }

  /** Which of the places of tables have a view. */
  private def holders(view: String, places: Seq[String]): Seq[Int] = {
    val request = Engine.request("find_view", Map("name" -> view, "locations" -> places))
    val reply = Edit.reply(new Settings(session.sessionState.conf), request, None)
    reply.content.get("found").elements().asScala.map(_.asInt).toSeq
  }

  def holds(place: String, view: String): Boolean = holders(view, Seq(place)).nonEmpty

  /** The place of that one of some tables which has a view. */
  def holder(view: String, tables: Seq[Seq[String]]): String = {
    val places = tables.map(of)
    holders(view, places).headOption.map(places).getOrElse(places.head)
  }

  def isAt(parts: Seq[String], place: String): Boolean = Try(of(parts)).toOption.contains(place)

  def only(parts: Seq[String], found: Seq[(String, String)]): String = found match {
    case Seq((_, location)) => location
    case Seq() => throw ProjsegError.of(
      "PROJSEG_UNKNOWN_VIEW",
      s"no projseg table of the namespace has a view ${shown(parts)}; of another table, add ON TABLE t")
    case several => throw ProjsegError.of(
      "PROJSEG_BAD_VIEW", s"${several.map(_._1).mkString(" and ")} each have a view ${shown(parts)}; add ON TABLE t")
  }

  /** Names and locations of the projseg tables of a namespace of the session catalog, or of its current one. */
  def all(namespace: Option[String]): Seq[(String, String)] = {
    val catalog = session.sessionState.catalog
    for {
      name <- catalog.listTables(namespace.getOrElse(catalog.getCurrentDatabase))
      if !catalog.isTempView(name)
      entry = catalog.getTableMetadata(name)
      if Table.isOfProjseg(entry)
    } yield name.table -> entry.location.toString
  }

  /** Whether a table is only in the catalog that stands in the place of Spark's own. */
  private def isOfOthers(table: TableIdentifier, name: Identifier): Boolean =
    !session.sessionState.catalog.tableExists(table) && catalogManager.v2SessionCatalog.asTableCatalog.tableExists(name)

  private def shown(parts: Seq[String]): String = parts.map(SqlText.quoted).mkString(".")

  private def other(parts: Seq[String]): Exception = ProjsegError.of(
    "PROJSEG_NOT_A_TABLE", s"${shown(parts)} is not a projseg table of a catalog, nor projseg.`/path`")
}
