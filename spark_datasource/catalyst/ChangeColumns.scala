package org.apache.spark.sql.projseg

import scala.util.control.NonFatal

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{ResolvedFieldName, UnresolvedFieldName, UnresolvedTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.{AlterTableCommand, LogicalPlan}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog, TableChange}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.{DataType, NullType, StructField, StructType}

/** ALTER TABLE ... ADD | RENAME | DROP | ALTER COLUMN of a table by path, or of Spark's own catalog. */
case class ChangeColumns(subject: Subject, changes: Seq[TableChange]) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val arguments = Map("changes" -> ColumnChanges.told(changes))
    val told = Statement("change_columns", subject, arguments, "kind STRING, name STRING, text STRING").run(session)
      .map(row => (row.getString(0), row.getString(1), row.getString(2)))
    val columns = told.collect { case ("column", name, text) => StructField(name, DataType.fromDDL(text)) }
    val options = told.collect { case ("option", name, text) => name.toLowerCase -> text }.toMap
    subject match {
      case ByName(parts) => new OwnCatalog(session.asInstanceOf[ClassicSession]).declare(parts, StructType(columns), options)
      case _ =>
    }
    Nil
  }
}

object ColumnChanges {
  // Named, as releases have further ones and other fields in these.
  private val commands = Set("AddColumns", "RenameColumn", "DropColumns", "AlterColumns")

  /** The command in place of one that Spark's parser has made, if it is about a projseg table. */
  def of(plan: LogicalPlan, session: SparkSession): LogicalPlan = plan match {
    case command: AlterTableCommand if commands.contains(command.getClass.getSimpleName) => command.table match {
      case named: UnresolvedTable =>
        new OwnCatalog(session.asInstanceOf[ClassicSession]).subject(named.multipartIdentifier)
          .map(ChangeColumns(_, changes(command))).getOrElse(plan)
      case _ => plan
    }
    case _ => plan
  }

  private def changes(command: AlterTableCommand): Seq[TableChange] =
    try command.transformExpressions {
      case written: UnresolvedFieldName => ResolvedFieldName(written.name.init, StructField(written.name.last, NullType))
    }.asInstanceOf[AlterTableCommand].changes
    catch { case _: IllegalArgumentException => throw unsupported("a field of a column, or a place among columns") }

  /** Changes as the engine takes them. */
  def told(changes: Seq[TableChange]): Seq[java.util.Map[String, Any]] = changes.map {
    case one: TableChange.AddColumn
        if one.isNullable && one.comment == null && one.position == null && one.defaultValue == null =>
      java.util.Map.of[String, Any]("add", name(one.fieldNames), "type", one.dataType.catalogString)
    case one: TableChange.RenameColumn => java.util.Map.of[String, Any]("rename", name(one.fieldNames), "to", one.newName)
    case one: TableChange.DeleteColumn =>
      java.util.Map.of[String, Any]("drop", name(one.fieldNames), "lenient", one.ifExists)
    case one: TableChange.UpdateColumnType =>
      java.util.Map.of[String, Any]("widen", name(one.fieldNames), "type", one.newDataType.catalogString)
    case other => throw unsupported(other.getClass.getSimpleName)
  }

  private def name(parts: Array[String]): String = parts match {
    case Array(one) => one
    case _ => throw unsupported(s"${parts.mkString(".")}, a field of a column")
  }

  private def unsupported(what: String): Exception = new UnsupportedOperationException(
    s"$what: columns of projseg tables are added, renamed, dropped and widened as a whole; they have no place, " +
      "default, NOT NULL, nor a comment that is changed")
}

/** Projseg tables of Spark's own catalog, whose entries have a copy of the columns and of the first write's options. */
private class OwnCatalog(session: ClassicSession) extends LookupCatalog {
  override protected val catalogManager: CatalogManager = session.sessionState.catalogManager

  def subject(parts: Seq[String]): Option[Subject] = parts match {
    case ByPath(path) => Some(At(path))
    case _ => entry(parts).map(_ => ByName(parts))
  }

  def declare(parts: Seq[String], columns: StructType, options: Map[String, String]): Unit = entry(parts).foreach { found =>
    val catalog = session.sessionState.catalog
    def present(given: Map[String, String]): Map[String, String] =
      given.map { case (name, text) => name -> options.getOrElse(name.toLowerCase, text) }
    catalog.externalCatalog.alterTable(found.copy(
      properties = present(found.properties), storage = found.storage.copy(properties = present(found.storage.properties))))
    // What a session catalog checks first would refuse to drop a column.
    catalog.externalCatalog.alterTableDataSchema(found.database, found.identifier.table, columns)
    session.catalog.refreshTable(found.identifier.quotedString)
  }

  private def entry(parts: Seq[String]): Option[CatalogTable] = parts match {
    case SessionCatalogAndIdentifier(_, name) if name.namespace.length == 1 =>
      try Some(session.sessionState.catalog.getTableMetadata(TableIdentifier(name.name, name.namespace.headOption)))
        .filter(Table.isOfProjseg)
      catch { case NonFatal(_) => None }
    case _ => None
  }
}
