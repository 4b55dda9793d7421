package org.apache.spark.sql.projseg

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Row, SaveMode, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{ResolvedTable, UnresolvedTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{AlterTableCommand, LogicalPlan, TruncateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, Identifier, TableCatalog, TableChange}
import org.apache.spark.sql.connector.expressions.LiteralValue
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.{ExecutedCommandExec, LeafRunnableCommand}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * ALTER TABLE ... ADD | RENAME | DROP | ALTER COLUMN of a table by path, or of Spark's own catalog: the
 * engine changes what is stored, and of the catalog's entry exactly those columns.
 */
case class ChangeColumns(subject: Subject, changes: Seq[TableChange]) extends LeafRunnableCommand {
  override def run(given: SparkSession): Seq[Row] = {
    val session = given.asInstanceOf[ClassicSession]
    subject match {
      case ByName(parts) =>
        val entry = session.sessionState.catalog.getTableMetadata(TableIdentifier(parts.last, parts.init.lastOption))
        val before = DeclaredColumns.of(entry)
        val after = ColumnChanges.declared(before, changes)
        SessionEntry.declare(session, entry, after, changed(session, ColumnChanges.of(changes, before), entry))
      case _ =>
        val kept = changes.find(ColumnChanges.isOfEntry)
        kept.foreach(one => throw Statement.unsupported(
          s"${ColumnChanges.words(one)} is kept in the entry of a catalog, and a table by its path has none; name the " +
            "table of a catalog that lies there"))
        changed(session, ColumnChanges.of(changes, new StructType()), entry = null)
    }
    Nil
  }

  /** Makes the changes that concern what is stored; returns the options that declare the table afterwards. */
  private def changed(
      session: ClassicSession, changes: Seq[util.Map[String, Any]], entry: CatalogTable): Map[String, String] =
    if (changes.isEmpty) Map.empty
    else {
      // A declared table that nobody has written to is made first, so that there is one way to change it.
      if (entry != null) EmptyTable.makeUnlessMade(
        session, entry.location.toString, entry.schema, Declaration.optionsOf(entry) ++ Declaration.propertiesOf(entry))
      SessionEntry.options(session, subject, changes)
    }
}

/** What Spark's own catalog says of a table, after changes of what is stored. */
object SessionEntry {
  /** The options that declare a table, after changes of its columns. */
  def options(session: ClassicSession, subject: Subject, changes: Seq[util.Map[String, Any]]): Map[String, String] =
    Statement("change_columns", subject, Map("changes" -> changes), "name STRING, text STRING").run(session)
      .map(row => row.getString(0).toLowerCase -> row.getString(1)).toMap

  /** Gives an entry the columns that its table has, and keeps what it declares of them. */
  def follow(session: ClassicSession, parts: Seq[String]): Unit =
    new SessionTables(session).entry(parts).foreach { entry =>
      val place = new CaseInsensitiveStringMap(util.Map.of("path", entry.location.toString))
      val declared = DeclaredColumns.of(entry)
      val columns = Sources.provider.inferSchema(place).map { stored =>
        declared.find(_.name == stored.name).map { known =>
          if (StoredType.of(known.dataType) == stored.dataType) known else known.copy(dataType = stored.dataType)
        }.getOrElse(stored)
      }
      if (StructType(columns) != declared) declare(session, entry, StructType(columns), options(session, ByName(parts), Nil))
    }

  /** Puts an entry in the place of the one of its name; what lies at its place stays. */
  def replace(session: ClassicSession, entry: CatalogTable): Unit = {
    val catalog = session.sessionState.catalog.externalCatalog
    catalog.alterTable(entry)
    catalog.alterTableDataSchema(entry.database, entry.identifier.table, entry.schema)
    session.catalog.refreshTable(entry.identifier.quotedString)
  }

  def declare(
      session: ClassicSession, entry: CatalogTable, columns: StructType, options: Map[String, String]): Unit = {
    val catalog = session.sessionState.catalog
    def present(given: Map[String, String]): Map[String, String] =
      given.map { case (name, text) => name -> options.getOrElse(name.toLowerCase, text) }
    if (options.nonEmpty) catalog.externalCatalog.alterTable(entry.copy(
      properties = present(entry.properties), storage = entry.storage.copy(properties = present(entry.storage.properties))))
    // What a session catalog checks first would refuse to drop a column.
    catalog.externalCatalog.alterTableDataSchema(entry.database, entry.identifier.table, DeclaredColumns.inEntry(columns))
    session.catalog.refreshTable(entry.identifier.quotedString)
  }
}

object ColumnChanges {
  // Named, as releases have further ones and other fields in these.
  private val commands = Set("AddColumns", "RenameColumn", "DropColumns", "AlterColumns", "ReplaceColumns")

  def isOne(command: AlterTableCommand): Boolean = commands.contains(command.getClass.getSimpleName)

  /** Columns after changes; all else that is declared of them stays. */
  def declared(columns: StructType, changes: Seq[TableChange]): StructType = {
    changes.foreach(check)
    changes.foldLeft(columns) {
      // Spark's own way would refuse a table of this provider that has any default.
      case (before, one: TableChange.AddColumn) => StructType(before ++ CatalogV2Util.v2ColumnsToStructType(Array(
        Column.create(one.fieldNames.head, one.dataType, one.isNullable, one.comment, one.defaultValue, null))))
      case (before, other) => CatalogV2Util.applySchemaChanges(before, Seq(other), Some("projseg"), "ALTER TABLE")
    }
  }

  /** Changes of what is stored, as the engine takes them; `columns` are those declared before. */
  def of(changes: Seq[TableChange], columns: StructType): Seq[util.Map[String, Any]] = {
    changes.foreach(check)
    changes.flatMap {
      case one: TableChange.AddColumn =>
        val added = Map[String, Any]("add" -> one.fieldNames.head, "type" -> StoredType.nameOf(one.dataType))
        Some(added ++ valueOf(one).map("value" -> _))
      case one: TableChange.RenameColumn => Some(Map("rename" -> one.fieldNames.head, "to" -> one.newName))
      case one: TableChange.DeleteColumn => Some(Map("drop" -> one.fieldNames.head, "lenient" -> one.ifExists))
      case one: TableChange.UpdateColumnType
          if !columns.find(_.name == one.fieldNames.head).exists(known =>
            StoredType.of(known.dataType) == StoredType.of(one.newDataType)) =>
        Some(Map("widen" -> one.fieldNames.head, "type" -> StoredType.nameOf(one.newDataType)))
      case _ => None
    }.map(_.asJava)
  }

  /** Whether only an entry of a catalog can keep a change, or a part of it. */
  def isOfEntry(change: TableChange): Boolean = change match {
    case one: TableChange.AddColumn =>
      one.comment != null || one.defaultValue != null || DeclaredColumns.isMoreThanStored(one.dataType)
    case one: TableChange.UpdateColumnType => DeclaredColumns.isMoreThanStored(one.newDataType)
    case _: TableChange.RenameColumn | _: TableChange.DeleteColumn => false
    case _ => true
  }

  def words(change: TableChange): String = change match {
    case one: TableChange.AddColumn if one.comment != null => "a COMMENT"
    case one: TableChange.AddColumn if one.defaultValue != null => "a DEFAULT"
    case _: TableChange.AddColumn | _: TableChange.UpdateColumnType => "a limit of length or a collation"
    case _: TableChange.UpdateColumnComment => "a COMMENT"
    case _: TableChange.UpdateColumnNullability => "NOT NULL"
    case _ => "a DEFAULT"
  }

  private def check(change: TableChange): Unit = change match {
    case one: TableChange.ColumnChange if one.fieldNames.length > 1 =>
      throw unsupported(
        s"change of ${one.fieldNames.mkString(".")}, a field of a column", "columns are added, renamed, dropped and widened whole")
    case one: TableChange.AddColumn if one.position != null => throw unsupported(
      "place among columns for new ones", "they come last; leave FIRST or AFTER out")
    case one: TableChange.AddColumn if !one.isNullable => throw unsupported(
      s"ADD COLUMN ${one.fieldNames.head} NOT NULL", "rows that are there have no value in it; leave NOT NULL out")
    case _: TableChange.UpdateColumnPosition => throw unsupported(
      "other place among columns for one", "it stays where it was added; leave FIRST or AFTER out")
    case one: TableChange.UpdateColumnNullability if !one.nullable => throw unsupported(
      s"SET NOT NULL, here of column ${one.fieldNames.head}", "rows that are there may be null; declare it when a table is made")
    case _ =>
  }

  /** The value that rows that are there get in a column that is added, as a text for the engine. */
  private def valueOf(added: TableChange.AddColumn): Option[String] =
    Option(added.defaultValue).map(_.getValue).flatMap {
      case value: LiteralValue[_] if value.value == null => None
      case LiteralValue(bytes: Array[Byte], _) => Some(bytes.map(one => f"$one%02x").mkString("X'", "", "'"))
      case value: LiteralValue[_] => Some(new SqlTexts("UTC", sharesRules = true).of(Literal(value.value, StoredType.of(value.dataType))).map(_.text)
        .getOrElse(throw unsupported(
          s"DEFAULT of type ${value.dataType.sql} for rows that are there",
          "add the column without it, and then ALTER COLUMN ... SET DEFAULT")))
    }

  private[projseg] def unsupported(what: String, why: String): Exception =
    Statement.unsupported(s"projseg has no $what: $why")
}

/** Gives ALTER TABLE of columns and TRUNCATE TABLE the table that lies at a path, which no catalog knows. */
class ResolveChangedPaths(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case command: AlterTableCommand if ColumnChanges.isOne(command) => resolved(command, command.table)
    case command: TruncateTable => resolved(command, command.table)
  }

  private def resolved(command: LogicalPlan, table: LogicalPlan): LogicalPlan = table match {
    case named: UnresolvedTable => named.multipartIdentifier match {
      case ByPath(path) => command.withNewChildren(Seq(at(path, named.multipartIdentifier)))
      case _ => command
    }
    case _ => command
  }

  private def at(path: String, parts: Seq[String]): ResolvedTable = {
    val columns = Sources.provider.inferSchema(new CaseInsensitiveStringMap(util.Map.of("path", path)))
    val catalog = session.asInstanceOf[ClassicSession].sessionState.catalogManager.v2SessionCatalog
    val table = new ProjsegTable(parts.map(SqlText.quoted).mkString("."), path, None, columns, Map.empty)
    ResolvedTable.create(catalog.asInstanceOf[TableCatalog], Identifier.of(parts.init.toArray, parts.last), table)
  }
}

/** Refuses changes of tables that projseg does not make, and of which Spark has no words or others. */
object RefusedChanges extends Rule[LogicalPlan] {
  // Named, as releases before 4.1 have no constraints.
  private val refused = Map(
    "ReplaceColumns" -> ("REPLACE COLUMNS" -> "it would drop every value of the table; use ADD, DROP, RENAME and ALTER COLUMN"),
    "AddConstraint" -> constraints, "AddCheckConstraint" -> constraints, "DropConstraint" -> constraints)

  override def apply(plan: LogicalPlan): LogicalPlan = {
    refused.get(plan.getClass.getSimpleName).filter(_ => plan.exists {
      case ResolvedTable(_, _, table, _) => Table.isProjseg(table)
      case relation: DataSourceV2Relation => Table.isProjseg(relation)
      case _ => false
    }).foreach { case (what, why) => throw ColumnChanges.unsupported(what, why) }
    plan
  }

  private def constraints: (String, String) =
    "constraints of a table" -> "no write would check them; declare NOT NULL, or filter the rows that are written"
}

/** Runs changes of columns of tables in Spark's own catalog, once Spark has checked them. */
object PlanColumnChanges extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case command: AlterTableCommand if ColumnChanges.isOne(command) => command.table match {
      case ResolvedTable(catalog, identifier, table, _) if Table.isProjseg(table) && CatalogV2Util.isSessionCatalog(catalog) =>
        val parts = identifier.namespace.toSeq :+ identifier.name
        val subject = ByPath.unapply(parts).map(At(_)).getOrElse(ByName(parts))
        ExecutedCommandExec(ChangeColumns(subject, command.changes)) :: Nil
      case _ => Nil
    }
    case _ => Nil
  }
}

/** A table without rows, made by a write of none: the source itself reads the options. */
object EmptyTable {
  def make(session: SparkSession, place: String, columns: StructType, options: Map[String, String]): Unit =
    session.createDataFrame(util.List.of[Row](), DeclaredColumns.read(columns)).write.format("projseg")
      .mode(SaveMode.Append).options(options).option("ifExists", "ignore").save(place)

  def makeUnlessMade(session: ClassicSession, place: String, columns: StructType, options: Map[String, String]): Unit = {
    val asked = Engine.request("version", Map("location" -> place))
    val found = new Requests(new Settings(session.sessionState.conf)).sent(asked)
    if (found.exists(_.code == "PROJSEG_NOT_A_TABLE")) make(session, place, columns, options)
  }
}
