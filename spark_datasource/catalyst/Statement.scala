package org.apache.spark.sql.projseg

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog, TableCatalog}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.StructType

/**
 * An operation of the engine on a table, run as a command; `columns` is what it returns, as DDL.
 * Without a table it runs on each projseg table of the current namespace, whose name comes first.
 */
case class Statement(operation: String, table: Seq[String], arguments: Map[String, Any], columns: String)
    extends LeafRunnableCommand {
  private val returned = StructType.fromDDL(columns)
  override val output: Seq[Attribute] =
    returned.map(field => AttributeReference(field.name, field.dataType, field.nullable)())

  override def run(session: SparkSession): Seq[Row] = {
    val tables = new Locations(session.asInstanceOf[ClassicSession])
    val settings = new Settings(session.asInstanceOf[ClassicSession].sessionState.conf)
    if (table.nonEmpty) rows(settings, tables.of(table), returned)
    else tables.all.flatMap { case (name, location) =>
      rows(settings, location, StructType(returned.tail)).map(row => Row.fromSeq(name +: row.toSeq))
    }
  }

  private def rows(settings: Settings, location: String, schema: StructType): Seq[Row] = {
    val request = Engine.json.createObjectNode()
    request.put("op", operation).put("location", location)
    arguments.foreach {
      case (name, value: Boolean) => request.put(name, value)
      case (name, value: Long) => request.put(name, value)
      case (name, values: Seq[_]) =>
        val texts = request.putArray(name)
        values.foreach(value => texts.add(value.toString))
      case (name, values: Map[_, _]) =>
        val texts = request.putObject(name)
        values.foreach { case (key, value) => texts.put(key.toString, value.toString) }
      case (name, value) => request.put(name, value.toString)
    }
    val reply = Engine.ask(settings.python, request, isRepeatable = false).getOrElse(throw Statement.failed(
      "projseg's engine process ended or could not start; look at the table before you repeat a change"))
    reply.error.foreach(message => throw Statement.failed(s"[${reply.code}] $message"))
    val toRow = CatalystTypeConverters.createToScalaConverter(schema)
    Engine.rowsOf(reply.rows, schema).map(row => toRow(row).asInstanceOf[Row])
  }
}

object Statement {
  /** An error that every client of Spark shows with its message. */
  def failed(message: String): Exception = new IllegalArgumentException(message)
}

/** Where the tables that a statement names lie. */
private class Locations(session: ClassicSession) extends LookupCatalog {
  override protected val catalogManager: CatalogManager = session.sessionState.catalogManager

  def of(parts: Seq[String]): String = parts match {
    case Seq("projseg", path) => path
    case SessionCatalogAndIdentifier(_, name) =>
      val entry = session.sessionState.catalog.getTableMetadata(TableIdentifier(name.name, name.namespace.headOption))
      if (!entry.provider.exists(_.equalsIgnoreCase("projseg"))) throw other(parts)
      entry.location.toString
    case NonSessionCatalogAndIdentifier(catalog: TableCatalog, name) =>
      val properties = catalog.loadTable(name).properties
      if (!"projseg".equalsIgnoreCase(properties.get(TableCatalog.PROP_PROVIDER))) throw other(parts)
      properties.get(TableCatalog.PROP_LOCATION)
    case _ => throw other(parts)
  }

  /** Names and locations of the projseg tables of the session catalog's current namespace. */
  def all: Seq[(String, String)] = {
    val catalog = session.sessionState.catalog
    for {
      name <- catalog.listTables(catalog.getCurrentDatabase)
      if !catalog.isTempView(name)
      entry = catalog.getTableMetadata(name)
      if entry.provider.exists(_.equalsIgnoreCase("projseg"))
    } yield name.table -> entry.location.toString
  }

  private def other(parts: Seq[String]): Exception =
    Statement.failed(s"${parts.mkString(".")} is not a projseg table of a catalog, nor projseg.`path`")
}
