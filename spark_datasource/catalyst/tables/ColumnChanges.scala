package org.apache.spark.sql.projseg

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, TableChange}
import org.apache.spark.sql.connector.expressions.LiteralValue
import org.apache.spark.sql.types.StructType

/** Changes of columns, as Spark has them and as the engine takes them. */
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
        s"change of ${one.fieldNames.mkString(".")}, a field of a column",
        "columns are added, renamed, dropped and widened whole")
    case one: TableChange.AddColumn if one.position != null => throw unsupported(
      "place among columns for new ones", "they come last; leave FIRST or AFTER out")
    case one: TableChange.AddColumn if !one.isNullable => throw unsupported(
      s"ADD COLUMN ${one.fieldNames.head} NOT NULL", "rows that are there have no value in it; leave NOT NULL out")
    case _: TableChange.UpdateColumnPosition => throw unsupported(
      "other place among columns for one", "it stays where it was added; leave FIRST or AFTER out")
    case one: TableChange.UpdateColumnNullability if !one.nullable => throw unsupported(
      s"SET NOT NULL, here of column ${one.fieldNames.head}",
      "rows that are there may be null; declare it when a table is made")
    case _ =>
  }

  /** The value that rows that are there get in a column that is added, as a text for the engine. */
  private def valueOf(added: TableChange.AddColumn): Option[String] =
    Option(added.defaultValue).map(_.getValue).flatMap {
      case value: LiteralValue[_] if value.value == null => None
      case LiteralValue(bytes: Array[Byte], _) => Some(bytes.map(one => f"$one%02x").mkString("X'", "", "'"))
      case value: LiteralValue[_] =>
        Some(new SqlTexts("UTC", sharesRules = true).of(Literal(value.value, StoredType.of(value.dataType))).map(_.text)
        .getOrElse(throw unsupported(
          s"DEFAULT of type ${value.dataType.sql} for rows that are there",
          "add the column without it, and then ALTER COLUMN ... SET DEFAULT")))
    }

  private[projseg] def unsupported(what: String, why: String): Exception =
    ProjsegError.unsupported(s"projseg has no $what: $why")
}
