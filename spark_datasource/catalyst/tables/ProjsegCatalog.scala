package org.apache.spark.sql.projseg

import java.util

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.{NamespaceAlreadyExistsException, NonEmptyNamespaceException}
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException, TableAlreadyExistsException}
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, Identifier, NamespaceChange, StagedTable}
import org.apache.spark.sql.connector.catalog.{SupportsNamespaces, Table => CatalogTable, TableCatalogCapability, TableChange}
import org.apache.spark.sql.connector.catalog.TableWritePrivilege
import org.apache.spark.sql.connector.catalog.TableCatalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Tables as folders of a warehouse: `spark.sql.catalog.<name>=org.apache.spark.sql.projseg.ProjsegCatalog`
 * and `spark.sql.catalog.<name>.warehouse=/path`. Nothing is kept but the folders. With
 * `spark.sql.catalog.<name>.uri` its tables are the definitions of a catalog in a database, or behind a server.
 */
class ProjsegCatalog extends StagesTables with SupportsNamespaces with ListedTables {
  private var title: String = _
  private var warehouse: String = _
  /** The arguments of the catalog of definitions, if it is one. */
  private var definitions: Option[Map[String, Any]] = None

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {
    title = name
    definitions = Option(options.get("uri")).map(DefinedCatalog.arguments(name, _, options))
    if (definitions.isEmpty) warehouse = Option(options.get("warehouse")).getOrElse(throw new IllegalArgumentException(
      s"catalog $name has no warehouse; set spark.sql.catalog.$name.warehouse to the folder of its tables"))
  }

  override def name(): String = title

  /** Whether its tables are definitions of a database. */
  def isOfDefinitions: Boolean = definitions.isDefined

  /** A definition with its table, at the newest version or another. */
  def defined(named: Identifier, at: Option[(String, Any)]): DefinedTable =
    new DefinedTable(this, named, shown(named), ask("defined_table", named, at.toSeq: _*))

  /** What a write of columns does to the table of a definition. */
  def planned(named: Identifier, columns: StructType, options: Map[String, String], isAdopted: Boolean): JsonNode = {
    val given = columns.map(one => Seq(one.name, StoredType.nameOf(one.dataType)).asJava)
    ask("defined_plan", named, "columns" -> given, "options" -> options, "adopts" -> isAdopted)
  }

  /** A definition whose table has the columns that are declared, so that its rows can be changed. */
  def changeable(named: Identifier): DefinedTable =
    new DefinedTable(this, named, shown(named), ask("defined_changeable", named))

  /** The columns of files from outside, and what tasks read them by. */
  def files(named: Option[Identifier], parameters: Map[String, Any], zone: String): JsonNode =
    ask("defined_files", named.getOrElse(all(Array.empty)), "parameters" -> parameters, "timezone" -> zone)

  /** Rows of a view of `information_schema` after a key, of definitions among some. */
  private[projseg] def viewPage(
      named: Identifier, columns: Seq[String], schemas: Option[Set[String]], tables: Option[Set[String]],
      after: JsonNode): Reply =
    asked("defined_view", named, named, "columns" -> columns, "schemas" -> schemas.map(_.toSeq).orNull,
      "tables" -> tables.map(_.toSeq).orNull, "after" -> after)

  /** The columns and rows of what is known of a table. */
  def metadata(named: Identifier, kind: String): (StructType, Seq[InternalRow]) = {
    val reply = asked("defined_metadata", named, named, "kind" -> kind)
    val columns = StoredType.columns(reply.content.get("result").asText)
    columns -> reply.packed(columns).rows.toSeq
  }

  /** The table of a definition as it is stored. */
  private def stored(named: Identifier): ProjsegTable = {
    val found = defined(named, None)
    new ProjsegTable(found.name, found.location, None, found.stored, Map.empty)
  }

  /** An operation about a definition, whose version it returns. */
  def act(operation: String, named: Identifier, fields: Map[String, Any]): Long =
    ask(operation, named, fields.toSeq: _*).asLong
  override def defaultNamespace(): Array[String] = Array("default")

  /** Of what is declared of columns, which a table's properties keep. */
  override def capabilities(): util.Set[TableCatalogCapability] =
    util.EnumSet.of(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE)

  // ---- tables

  override def listTables(namespace: Array[String]): Array[Identifier] = {
    val where = in(namespace)
    ask(operation("tables"), all(namespace)).elements.asScala
      .map(name => Identifier.of(Array(where), name.asText)).toArray
  }

  override def loadTable(named: Identifier): CatalogTable =
    if (isOfDefinitions && named.name == DefinedTable.Stored && named.namespace.length == 2)
      stored(Identifier.of(named.namespace.init, named.namespace.last))
    else if (isOfDefinitions) defined(named, Some("is_shown" -> true))
    else table(named, ask("describe_table", named), None)
  override def loadTable(named: Identifier, version: String): CatalogTable = {
    val number = version.toLongOption.getOrElse(
      throw new IllegalArgumentException(s"version '$version' of table ${shown(named)} is no whole number"))
    if (isOfDefinitions) defined(named, Some("version" -> number))
    else table(named, ask("describe_table", named, "version" -> number), Some(number))
  }
  override def loadTable(named: Identifier, timestamp: Long): CatalogTable = if (isOfDefinitions)
    defined(named, Some("timestamp_us" -> timestamp)) else {
    val described = ask("describe_table", named, "timestamp_us" -> timestamp)
    table(named, described, Some(described.get("version").asLong))
  }

  /** The table that a write names: `saveAsTable` makes one that is not there, and with it the catalog. */
  override def loadTable(named: Identifier, privileges: util.Set[TableWritePrivilege]): CatalogTable =
    try loadTable(named) catch {
      case _: SparkException | _: IllegalArgumentException if isNotBegun => throw new NoSuchTableException(named)
    }

  override def tableExists(named: Identifier): Boolean = ofBegun({ loadTable(named); true }, false)

  /**
   * Whether a look finds something; `otherwise` where the first edit has not made the catalog yet,
   * as a look makes none.
   */
  private def ofBegun(look: => Boolean, otherwise: => Boolean): Boolean =
    try look catch {
      case _: NoSuchTableException | _: NoSuchNamespaceException => false
      case _: SparkException | _: IllegalArgumentException if isNotBegun => otherwise
    }

  private def isNotBegun: Boolean = isOfDefinitions && !ask("defined_begun", all(Array.empty)).asBoolean

  /** The tables of a namespace with their kinds, none of which is loaded. */
  override protected def summaries(namespace: Array[String]): Array[(Identifier, String)] = {
    val where = in(namespace)
    if (!isOfDefinitions) listTables(namespace).map(_ -> "MANAGED")
    else ask("defined_summaries", all(namespace)).elements.asScala
      .map(one => Identifier.of(Array(where), one.get(0).asText) -> one.get(1).asText).toArray
  }

  override def createTable(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], properties: util.Map[String, String])
      : CatalogTable = {
    if (isOfDefinitions) ask("defined_create", named, DefinedCatalog.declaration(columns, partitions, properties): _*)
    else stageCreate(named, columns, partitions, properties).commitStagedChanges()
    loadTable(named)
  }

  override def alterTable(named: Identifier, changes: TableChange*): CatalogTable = if (isOfDefinitions) {
    ask("defined_alter", named, "changes" -> changes.map(DefinedCatalog.change))
    loadTable(named)
  } else {
    val found = loadTable(named).asInstanceOf[ProjsegTable]
    val (ofColumns, others) = changes.partition(_.isInstanceOf[TableChange.ColumnChange])
    val texts = others.map {
      case set: TableChange.SetProperty => free(set.property) -> set.value
      case removed: TableChange.RemoveProperty => free(removed.property) -> null
      case other => throw new UnsupportedOperationException(
        s"${other.getClass.getSimpleName} of table ${shown(named)}: this catalog changes columns and free properties only")
    }
    val before = found.structure
    val after = ColumnChanges.declared(before, ofColumns)
    val steps = ColumnChanges.of(ofColumns, before)
    val (kept, keeps) = (DeclaredColumns.kept(before), DeclaredColumns.kept(after))
    val fresh = keeps.filter(one => !kept.exists(_ == one))
    val declared = (kept -- keeps.keys).map { case (name, _) => name -> null } ++ fresh ++ texts
    if (steps.nonEmpty)
      ask("change_table", named, "location" -> found.location, "changes" -> steps, "declared" -> declared)
    if (declared.nonEmpty) ask("set_properties", named, "location" -> found.location, "properties" -> declared)
    loadTable(named)
  }

  override def renameTable(named: Identifier, renamed: Identifier): Unit =
    ask(if (isOfDefinitions) "defined_rename" else "rename_table", named, renamed,
        "new_namespace" -> in(renamed.namespace), "new_table" -> renamed.name)

  override def dropTable(named: Identifier): Boolean =
    try {
      if (isOfDefinitions) ask("defined_drop", named, "data" -> "trash") else ask("drop_table", named)
      true
    } catch { case _: NoSuchTableException => false }
  override def purgeTable(named: Identifier): Boolean =
    if (!isOfDefinitions) dropTable(named)
    else try { ask("defined_drop", named, "data" -> "now"); true } catch { case _: NoSuchTableException => false }

  private def table(named: Identifier, described: JsonNode, version: Option[Long]): CatalogTable = {
    val properties = texts(described.get("properties"))
    val columns = described.get("columns").properties().asScala.toSeq.map { one =>
      DeclaredColumns.of(one.getKey, StoredType.of(one.getValue.asText), properties)
    }
    val location = described.get("location").asText
    val shownProperties =
      properties.filterNot(_._1.startsWith(DeclaredColumns.Property)) ++ texts(described.get("options")) ++
      Map(PROP_PROVIDER -> "projseg", PROP_LOCATION -> location, PROP_IS_MANAGED_LOCATION -> "true")
    new ProjsegTable(shown(named), location, version, StructType(columns), shownProperties)
  }

  /** Where the table of a name lies, if there is one. */
  private[projseg] def placeIfThere(named: Identifier): Option[String] =
    if (isNotBegun) None
    else try loadTable(named) match {
      case found: ProjsegTable => Some(found.location).filter(_.nonEmpty)
      case _ => None
    } catch { case _: NoSuchTableException | _: NoSuchNamespaceException => None }

  override protected def staged(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String],
      replaces: Boolean): StagedTable =
    staged(named, columns, partitions, given, replaces,
        if (replaces) PlannedTable.newest(placeIfThere(named)) else None)

  /** A table that gets its name when it is whole, or one that is replaced where it lies. */
  private[projseg] def staged(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String],
      replaces: Boolean, seen: Option[Long]): StagedTable = {
    if (isOfDefinitions) return stagedDefinition(named, columns, partitions, given, replaces, seen)
    val declaration = new Declaration(shown(named), columns, partitions, given.asScala.toMap)
    val structure = CatalogV2Util.v2ColumnsToStructType(columns)
    val present = if (replaces) placeIfThere(named) else None
    val made = present.getOrElse(ask("stage_table", named).asText)
    PlannedTable.of(shown(named), made, structure, declaration.options, declaration.free, keepsAll = true, seen,
        replaces) { () =>
      if (present.isEmpty) ask("publish_table", named, "staged" -> made)
    }
  }

  /** A definition that gets its name, or takes another's place, when its first rows are there. */
  private def stagedDefinition(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String],
      replaces: Boolean, seen: Option[Long]): StagedTable = {
    val declared = DefinedCatalog.declaration(columns, partitions, given)
    val staged = ask("defined_stage", named, declared ++ seen.map("base_version" -> _) :+ ("replaces" -> replaces): _*)
    val structure = CatalogV2Util.v2ColumnsToStructType(columns)
    new PlannedTable(shown(named), staged.get("location").asText, structure, staged, () =>
      if (staged.has("id")) ask("defined_publish", named, "id" -> staged.get("id").asText, "replace" -> false)
      else ask("defined_replace", named, declared :+ ("version" -> staged.get("definition_version").asLong): _*)) {
      override def abortStagedChanges(): Unit = {
        super.abortStagedChanges()
        if (staged.has("staged")) ask("defined_discard", named, "staged" -> staged.get("staged").asText)
      }
    }
  }

  private def free(property: String): String =
    if (property.startsWith(DeclaredColumns.Property)) throw new IllegalArgumentException(
      s"property '$property' is what the catalog keeps of a column; use ALTER TABLE ... ALTER COLUMN")
    else if (!Declaration.isOption(property)) property
    else throw new IllegalArgumentException(
      s"property '$property' is fixed when a table is made; change projections with ALTER TABLE ... ADD PROJECTION")

  // ---- namespaces

  override def listNamespaces(): Array[Array[String]] =
    ask(operation("namespaces"), all(Array.empty)).elements.asScala.map(one => Array(one.asText)).toArray
  override def listNamespaces(above: Array[String]): Array[Array[String]] =
    if (above.isEmpty) listNamespaces() else { loadNamespaceMetadata(above); Array.empty }
  override def loadNamespaceMetadata(namespace: Array[String]): util.Map[String, String] = {
    val found = ask(operation("namespace"), all(namespace))
    if (!isOfDefinitions) util.Map.of(SupportsNamespaces.PROP_LOCATION, found.asText)
    else (texts(found.get("properties")) ++
        DefinedTable.text(found, "comment").map(SupportsNamespaces.PROP_COMMENT -> _) ++
      DefinedTable.text(found, "owner").map(SupportsNamespaces.PROP_OWNER -> _)).asJava
  }
  override def namespaceExists(namespace: Array[String]): Boolean =
    ofBegun({ loadNamespaceMetadata(namespace); true }, namespace.sameElements(defaultNamespace()))
  override def createNamespace(namespace: Array[String], given: util.Map[String, String]): Unit = if (isOfDefinitions) {
    val comment = Option(given.get(SupportsNamespaces.PROP_COMMENT)).map("comment" -> _)
    val free = given.asScala.toMap - SupportsNamespaces.PROP_COMMENT - SupportsNamespaces.PROP_OWNER
    ask("defined_create_namespace", all(namespace), comment.toSeq :+ ("properties" -> free): _*)
  } else {
    val unknown = given.keySet.asScala - SupportsNamespaces.PROP_OWNER
    if (unknown.nonEmpty) throw new UnsupportedOperationException(
      s"a namespace of catalog $title is a folder of its warehouse and keeps no ${unknown.mkString(", ")}; leave it out")
    ask("create_namespace", all(namespace))
  }
  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit =
    throw new UnsupportedOperationException(
      s"a namespace of catalog $title is a folder of its warehouse and keeps no properties")
  override def dropNamespace(namespace: Array[String], isCascading: Boolean): Boolean =
    try {
      ask(operation("drop_namespace"), all(namespace), "cascade" -> isCascading)
      true
    } catch { case _: NoSuchNamespaceException => false }

  // ---- requests

  private def in(namespace: Array[String]): String = namespace match {
    case Array() => defaultNamespace().head
    case Array(one) => one
    case _ => throw new NoSuchNamespaceException(name() +: namespace)
  }

  private def operation(of: String): String = if (isOfDefinitions) s"defined_$of" else of

  private def all(namespace: Array[String]): Identifier = Identifier.of(namespace, "")

  private def shown(named: Identifier): String =
    Seq(title, in(named.namespace), named.name).map(SqlText.quoted).mkString(".")

  private def texts(node: JsonNode): Map[String, String] =
    node.properties().asScala.map(one => one.getKey -> one.getValue.asText).toMap

  private def ask(operation: String, about: Identifier, fields: (String, Any)*): JsonNode =
    ask(operation, about, about, fields: _*)

  /**
   * The result of an operation about a table, or a namespace's nameless one; errors are Spark's own
   * where it has them.
   */
  private def ask(operation: String, about: Identifier, taken: Identifier, fields: (String, Any)*): JsonNode =
    asked(operation, about, taken, fields: _*).content.get("result")

  private def asked(operation: String, about: Identifier, taken: Identifier, fields: (String, Any)*): Reply = {
    val where = definitions.map("catalog" -> _).getOrElse("warehouse" -> warehouse)
    val place = Map(where, "namespace" -> in(about.namespace), "table" -> about.name)
    val request = Engine.request(operation, place ++ fields)
    val settings = new Settings(SQLConf.get)
    val limit = Option.when(ProjsegCatalog.isQuick(operation))(settings.localMillis)
    val reply = Engine.ask(settings.python, request, isRepeatable = false, limit).fold(refusal =>
      throw new SparkException(s"$refusal; set spark.projseg.python to a Python that has projseg"), identity)
    reply.code match {
      case "" => reply
      case "PROJSEG_UNKNOWN_TABLE" => throw new NoSuchTableException(about)
      case "PROJSEG_NOT_A_TABLE" if !isOfDefinitions => throw new NoSuchTableException(about)
      case "PROJSEG_TABLE_EXISTS" => throw new TableAlreadyExistsException(taken)
      case "PROJSEG_UNKNOWN_NAMESPACE" => throw new NoSuchNamespaceException(title +: about.namespace)
      case "PROJSEG_NAMESPACE_EXISTS" => throw new NamespaceAlreadyExistsException(about.namespace)
      case "PROJSEG_NAMESPACE_NOT_EMPTY" => throw new NonEmptyNamespaceException(about.namespace)
      case code => throw ProjsegError.of(code, reply.error.get)
    }
  }
}

private object ProjsegCatalog {
  /** Whether an operation only reads what describes tables. */
  def isQuick(operation: String): Boolean =
    Set("tables", "describe_table", "namespaces", "namespace", "table", "summaries")
      .contains(operation.stripPrefix("defined_"))
}
