package org.apache.spark.sql.projseg

import java.util

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType, CatalogUtils}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, Identifier, StagedTable, StagingTableCatalog}
import org.apache.spark.sql.connector.catalog.{Table => LoadedTable, TableCatalog, TableCatalogCapability, TableChange}
import org.apache.spark.sql.connector.catalog.TableCatalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** How Spark asks for tables that are made or replaced by one statement. */
private[projseg] trait StagesTables extends StagingTableCatalog {
  /** A table that is made, or one that is replaced, once its rows are written. */
  protected def staged(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String],
      replaces: Boolean): StagedTable

  /** The layout that the write of the rows states, where the statement has no properties. */
  protected def layout: Map[String, String] = Map.empty

  override def stageCreate(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String])
      : StagedTable = staged(named, columns, partitions, stated(given), replaces = false)
  override def stageReplace(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String])
      : StagedTable = {
    loadTable(named)
    staged(named, columns, partitions, stated(given), replaces = true)
  }
  override def stageCreateOrReplace(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String])
      : StagedTable = staged(named, columns, partitions, stated(given), replaces = true)

  private def stated(given: util.Map[String, String]): util.Map[String, String] = (layout ++ given.asScala).asJava
}

/**
 * A catalog in one statement that makes or replaces a table, whose rows and declaration are published in one commit
 * of the table's own log.
 *
 * @param below the catalog that the statement names
 * @param seen the version of the table when the statement was analysed: what others write later is not replaced
 */
private[projseg] abstract class StagedCatalog(
    below: TableCatalog, protected val seen: Option[Long], override protected val layout: Map[String, String])
    extends StagesTables {
  override def name(): String = below.name()
  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = ()
  override def defaultNamespace(): Array[String] = below.defaultNamespace()
  override def capabilities(): util.Set[TableCatalogCapability] = below.capabilities()
  override def useNullableQuerySchema(): Boolean = below.useNullableQuerySchema()
  override def listTables(namespace: Array[String]): Array[Identifier] = below.listTables(namespace)
  override def tableExists(named: Identifier): Boolean = below.tableExists(named)
  override def loadTable(named: Identifier): LoadedTable = below.loadTable(named)
  override def invalidateTable(named: Identifier): Unit = below.invalidateTable(named)
  override def createTable(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String])
      : LoadedTable = below.createTable(named, columns, partitions, given)
  override def alterTable(named: Identifier, changes: TableChange*): LoadedTable = below.alterTable(named, changes: _*)
  override def dropTable(named: Identifier): Boolean = below.dropTable(named)
  override def renameTable(named: Identifier, renamed: Identifier): Unit = below.renameTable(named, renamed)
}

/** A `ProjsegCatalog` in one statement. */
private[projseg] class StagedOwnCatalog(below: ProjsegCatalog, version: Option[Long], options: Map[String, String])
    extends StagedCatalog(below, version, options) {
  override protected def staged(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String],
      replaces: Boolean): StagedTable = below.staged(named, columns, partitions, given, replaces, seen)
}

/** Spark's own catalog, or the one that stands in its place, in one statement about a table of projseg. */
private[projseg] class StagedSessionCatalog(
    session: ClassicSession, tables: SessionTables, below: TableCatalog, version: Option[Long],
    options: Map[String, String])
    extends StagedCatalog(below, version, options) {
  override def loadTable(named: Identifier): LoadedTable =
    tables.entry(name() +: named.namespace.toSeq :+ named.name).map(tables.loaded).getOrElse(below.loadTable(named))

  override def createTable(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String])
      : LoadedTable = {
    val declared = new SessionDeclaration(given.asScala.toMap)
    val place = Option(given.get(PROP_LOCATION)).getOrElse(defaultPlace(table(named)))
    PlannedTable.check(place, CatalogV2Util.v2ColumnsToStructType(columns), declared.all, declared.properties,
        keepsAll = false)
    below.createTable(named, columns, partitions, given)
    loadTable(named)
  }

  override protected def staged(
      named: Identifier, columns: Array[Column], partitions: Array[Transform], given: util.Map[String, String],
      replaces: Boolean): StagedTable = {
    val catalog = session.sessionState.catalog
    val structure = CatalogV2Util.v2ColumnsToStructType(columns)
    val declared = new SessionDeclaration(given.asScala.toMap)
    val present = Option.when(catalog.tableExists(table(named)))(catalog.getTableMetadata(table(named)))
    if (present.isDefined && !replaces) throw new TableAlreadyExistsException(named)
    present.foreach(check(_, given))
    val entry = declared.entry(present.getOrElse(fresh(named, given)), structure)
    if (present.isEmpty) catalog.validateTableLocation(entry)
    PlannedTable.of(
      entry.identifier.quotedString, entry.location.toString, structure, declared.layout, declared.properties,
      keepsAll = false, seen, replaces) { () =>
      if (present.isEmpty) catalog.createTable(entry, ignoreIfExists = false, validateLocation = false)
      else SessionEntry.replace(session, entry)
    }
  }

  private def check(entry: CatalogTable, given: util.Map[String, String]): Unit = {
    def refused(what: String): Nothing =
      throw ProjsegError.of("PROJSEG_BAD_OPTION", s"table ${entry.identifier.quotedString} $what")
    if (!Table.isOfProjseg(entry)) refused(
      s"is ${entry.provider.map("one of " + _).getOrElse("a view")}, whose rows a failed statement could not keep; drop it first")
    Option(given.get(PROP_LOCATION)).filter(CatalogUtils.stringToURI(_) != entry.location).foreach(place => refused(
      s"lies at ${entry.location}, and is replaced there; leave LOCATION $place out, or drop the table first"))
  }

  private def fresh(named: Identifier, given: util.Map[String, String]): CatalogTable = {
    val place = Option(given.get(PROP_LOCATION))
    CatalogTable(
      identifier = table(named),
      tableType = if (place.isDefined || given.containsKey(PROP_EXTERNAL)) CatalogTableType.EXTERNAL
      else CatalogTableType.MANAGED,
      storage = CatalogStorageFormat.empty.copy(
        locationUri = Some(CatalogUtils.stringToURI(place.getOrElse(defaultPlace(table(named)))))),
      schema = new StructType(),
      owner = Option(given.get(PROP_OWNER)).getOrElse(""))
  }

  private def defaultPlace(table: TableIdentifier): String =
    session.sessionState.catalog.defaultTablePath(table).toString

  private def table(named: Identifier): TableIdentifier =
    session.sessionState.catalog.qualifyIdentifier(TableIdentifier(named.name, named.namespace.headOption))
}

/** What a statement says of a table of Spark's own catalog. */
private[projseg] class SessionDeclaration(val given: Map[String, String]) {
  private val options = given.collect {
    case (name, text) if name.startsWith(OPTION_PREFIX) => name.stripPrefix(OPTION_PREFIX) -> text
  }
  private val stated = given.filterNot { case (name, _) => name.startsWith(OPTION_PREFIX) || options.contains(name) } --
    CatalogV2Util.TABLE_RESERVED_PROPERTIES

  /** What the write that makes the table is told. */
  val layout: Map[String, String] = (stated ++ options).filter { case (name, _) => Declaration.isOption(name) }
  /** This, and what else stands in OPTIONS. */
  val all: Map[String, String] = layout ++ options
  /** What is no option. */
  val properties: Map[String, String] = stated.filterNot { case (name, _) => Declaration.isOption(name) }

  /** An entry that says this, as Spark's own would: columns have the types that they declare. */
  def entry(before: CatalogTable, columns: StructType): CatalogTable = before.copy(
    schema = columns,
    provider = Some("projseg"),
    storage = before.storage.copy(properties = options),
    properties = given - PROP_LOCATION,
    comment = given.get(PROP_COMMENT),
    stats = None)
}

/** A table whose rows and declaration are published together, and then its entry by `publish`. */
private[projseg] class PlannedTable(
    title: String, place: String, columns: StructType, plan: JsonNode, publish: () => Unit)
    extends ProjsegTable(title, place, None, columns, Map.empty, PlannedTable.options(plan)) with StagedTable {
  private var isWritten = false

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    isWritten = true
    super.newWriteBuilder(info)
  }

  override def commitStagedChanges(): Unit = {
    if (!isWritten) ask("finish_replacement")
    publish()
  }

  override def abortStagedChanges(): Unit = ask("discard_replacement")

  private def ask(operation: String): Unit = PlannedTable.ask(operation, Map(
    "location" -> place, "plan" -> plan.get("plan").asText, "had_folder" -> plan.get("had_folder").asBoolean))
}

private[projseg] object PlannedTable {
  /** A table at a place as a statement declares it; `seen` is the version that it replaces. */
  def of(
      title: String, place: String, columns: StructType, options: Map[String, String], properties: Map[String, String],
      keepsAll: Boolean, seen: Option[Long], replaces: Boolean)(publish: () => Unit): PlannedTable = {
    val request = declaration(place, columns, options, properties, keepsAll) ++ Map("replaces" -> replaces) ++
      seen.map("base_version" -> _)
    new PlannedTable(title, place, columns, ask("plan_replacement", request), publish)
  }

  /** The newest version of the table at a place, if there is one. */
  def newest(place: Option[String]): Option[Long] = place.flatMap { found =>
    new Requests(new Settings(SQLConf.get)).sent(Engine.request("version", Map("location" -> found))).toOption
      .filter(_.error.isEmpty).map(_.content.get("version").asLong)
  }

  /** Refuses a declaration that no table can have. */
  def check(
      place: String, columns: StructType, options: Map[String, String], properties: Map[String, String],
      keepsAll: Boolean): Unit = ask("check_declaration", declaration(place, columns, options, properties, keepsAll))

  /** Changes the properties that have an effect, of the table at a place or of one that is to be made there. */
  def change(
      place: String, columns: StructType, before: SessionDeclaration, set: Map[String, String],
      unset: Seq[String]): Unit = {
    val after = new SessionDeclaration(before.given -- unset ++ set)
    ask("change_properties", declaration(place, columns, after.layout, after.properties, keepsAll = false) ++
      Map("set" -> set, "unset" -> unset))
  }

  private def declaration(
      place: String, columns: StructType, options: Map[String, String], properties: Map[String, String],
      keepsAll: Boolean): Map[String, Any] = Map(
    "location" -> place, "columns" -> columns.map(one => Seq(one.name, StoredType.nameOf(one.dataType))),
    "options" -> options, "properties" -> properties, "keeps_all" -> keepsAll)

  def options(plan: JsonNode): Map[String, String] =
    plan.get("layout").properties().asScala.map(one => one.getKey -> one.getValue.asText).toMap +
      (DefinedWrites.Plan -> plan.get("plan").asText)

  private def ask(operation: String, fields: Map[String, Any]): JsonNode =
    Edit.reply(new Settings(SQLConf.get), Engine.request(operation, fields), None).content
}
