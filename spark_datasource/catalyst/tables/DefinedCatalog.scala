package org.apache.spark.sql.projseg

import java.util
import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.connector.catalog.{Column, TableChange}
import org.apache.spark.sql.connector.catalog.TableCatalog._
import org.apache.spark.sql.connector.expressions.{NamedReference, Transform}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Statements about a catalog of definitions, as requests of the engine. */
private[projseg] object DefinedCatalog {
  private val lists = Map("externalRoots" -> "external_roots", "externalHosts" -> "external_hosts")
  private val texts = Map("token" -> "token", "tenant" -> "tenant", "warehouse" -> "warehouse")

  /** The arguments of the catalog in Python. A password in its address is refused, as Spark shows settings. */
  def arguments(title: String, uri: String, options: CaseInsensitiveStringMap): Map[String, Any] = {
    val authority = uri.split("://", 2).drop(1).headOption.getOrElse("").takeWhile(_ != '/')
    val isInQuery = uri.split("[?&]").drop(1).exists(_.toLowerCase(Locale.ROOT).startsWith("password="))
    if (isInQuery || (authority.contains("@") && authority.split("@").head.contains(":")))
      throw ProjsegError.of(
        "PROJSEG_BAD_ARGUMENT",
      s"spark.sql.catalog.$title.uri holds a password, and Spark shows settings; use PGPASSFILE, or .token, which it hides")
    def given(option: String) = Option(options.get(option))
    val seconds = given("refreshSeconds").map { text =>
      "refresh_seconds" -> text.toDoubleOption.getOrElse(throw ProjsegError.of("PROJSEG_BAD_ARGUMENT",
        s"spark.sql.catalog.$title.refreshSeconds is '$text', no number"))
    }
    Map[String, Any]("uri" -> uri) ++ texts.flatMap { case (option, field) => given(option).map(field -> _) } ++
      seconds ++
      lists.flatMap { case (option, field) =>
        given(option).map(text => field -> text.split(",").map(_.trim).filter(_.nonEmpty).toSeq.asJava)
      }
  }

  /** What CREATE TABLE declares, as the engine takes it. */
  def declaration(
      columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String]): Seq[(String, Any)] = {
    val properties = given.asScala.toMap
    val options =
      properties.collect { case (name,
          text) if name.startsWith(OPTION_PREFIX) => name.stripPrefix(OPTION_PREFIX) -> text }
    val reserved = Set(PROP_PROVIDER, PROP_OWNER, PROP_LOCATION, PROP_COMMENT, PROP_EXTERNAL, PROP_IS_MANAGED_LOCATION)
    val free = properties.filterNot { case (name, _) =>
      name.startsWith(OPTION_PREFIX) || reserved.contains(name) || options.contains(name)
    }
    val listed = columns.map { column =>
      if (column.defaultValue != null || column.generationExpression != null || !column.nullable) throw ProjsegError.of(
        "PROJSEG_BAD_OPTION",
        s"column ${column.name}: a definition has no NOT NULL, DEFAULT or generated columns; leave it out")
      if (DeclaredColumns.isMoreThanStored(column.dataType)) throw ProjsegError.of(
        "PROJSEG_BAD_OPTION",
        s"column ${column.name}: a definition has no ${column.dataType.sql}; write ${StoredType.nameOf(column.dataType)}")
      Seq(column.name, StoredType.nameOf(column.dataType), column.comment).asJava
    }.toSeq.asJava
    val transforms = partitions.map { one =>
      val names = one.arguments.collect { case named: NamedReference => named.fieldNames.mkString(".") }
      util.List.of[Any](one.name, names.toSeq.asJava)
    }.toSeq.asJava
    Seq("columns" -> listed, "transforms" -> transforms, "properties" -> free, "options" -> options) ++
      Seq("provider" -> PROP_PROVIDER, "comment" -> PROP_COMMENT, "location" -> PROP_LOCATION)
        .flatMap { case (field, property) => properties.get(property).map(field -> _) }
  }

  /** A change of ALTER TABLE, as the engine takes it. */
  def change(given: TableChange): util.Map[String, Any] = {
    def single(names: Array[String]): String = names match {
      case Array(one) => one
      case several => throw ProjsegError.unsupported(
        s"projseg has no change of ${several.mkString(".")}, a field of a column: columns are added, renamed, dropped and retyped whole")
    }
    def placed(position: TableChange.ColumnPosition): Map[String, Any] = position match {
      case null => Map.empty
      case after: TableChange.After => Map("where" -> "after", "anchor" -> after.column)
      case _ => Map("where" -> "first")
    }
    val found: Map[String, Any] = given match {
      case one: TableChange.AddColumn if one.defaultValue != null || !one.isNullable => throw ProjsegError.of(
        "PROJSEG_BAD_OPTION",
        s"column ${one.fieldNames.last}: a definition has no NOT NULL and no DEFAULT; leave it out")
      case one: TableChange.AddColumn =>
        Map("kind" -> "add", "column" -> single(one.fieldNames), "type" -> StoredType.nameOf(one.dataType),
            "comment" -> one.comment) ++
          placed(one.position)
      case one: TableChange.UpdateColumnPosition =>
        Map("kind" -> "move", "column" -> single(one.fieldNames)) ++ placed(one.position)
      case one: TableChange.UpdateColumnComment =>
        Map("kind" -> "comment", "column" -> single(one.fieldNames), "comment" -> one.newComment)
      case one: TableChange.UpdateColumnType =>
        Map("kind" -> "type", "column" -> single(one.fieldNames), "type" -> StoredType.nameOf(one.newDataType))
      case one: TableChange.RenameColumn =>
        Map("kind" -> "rename", "column" -> single(one.fieldNames), "to" -> one.newName)
      case one: TableChange.DeleteColumn =>
        Map("kind" -> "drop", "column" -> single(one.fieldNames), "lenient" -> one.ifExists)
      case one: TableChange.SetProperty =>
        Map("kind" -> "properties", "set" -> util.Map.of(one.property, one.value), "unset" -> util.List.of())
      case one: TableChange.RemoveProperty =>
        Map("kind" -> "properties", "set" -> util.Map.of(), "unset" -> util.List.of(one.property))
      case one: TableChange.ClusterBy =>
        Map("kind" -> "cluster", "columns" -> one.clusteringColumns.map(_.fieldNames.mkString(".")).toSeq.asJava)
      case other => throw ProjsegError.unsupported(
        s"${other.getClass.getSimpleName}: a definition has columns, comments, properties and a clustering, and nothing else")
    }
    found.asJava
  }
}
