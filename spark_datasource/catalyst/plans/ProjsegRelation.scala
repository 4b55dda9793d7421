package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.connector
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A relation over a projseg table, read as it is: no query in its options, which are in lower case. */
case class Table(relation: LogicalPlan, location: String, version: Option[Long], options: Map[String, String]) {
  val isPinned: Boolean = options.contains(Table.Pinned)

  /** Its id, and the hashes of SELECTs whose rows its store of views has, where the analysis chose the version. */
  private lazy val pin: Seq[String] = options.get(Table.Pinned).filter(_ != "true").toSeq.flatMap(_.split(" "))
  def id: Option[String] = pin.headOption
  def results: Seq[String] = pin.drop(1)

  /** Why stored results of SELECTs that read it are not used, for EXPLAIN. */
  def noResult: Option[Refusal] = (relation match {
    case scan: DataSourceV2ScanRelation => scan.relation
    case other => other
  }).getTagValue(Table.NoResult)

  /** Whether its rows have numbers, which say to a change of rows which they are. */
  val isNumbered: Boolean = options.contains(ChangedTable.Numbered)

  /** The columns that are stored. */
  lazy val stored: Seq[Attribute] = relation.output.filterNot(isNumbered && _.name == ChangedTable.Number)

  /** Among how many tasks rows are to be divided, if an option says so. */
  val parallelism: Option[String] = options.get(Table.Parallelism)

  /** Options of the object store that the table is in, by the store's own keys. */
  val storage: Map[String, String] = Table.storageOf(options)

  /** Without the options, which may hold a secret. */
  override def toString: String = s"Table($location, $version)"

  /** Whether the relation has its columns as a reply says that they are stored: a schema given may differ. */
  def isAsStored(reply: Reply): Boolean = isAsStored(reply.content.get("columns"))

  def isAsStored(columns: JsonNode): Boolean = {
    val stored = columns.properties().asScala
      .map(one => one.getKey -> StoredType.of(one.getValue.asText)).toMap
    this.stored.forall(one => stored.get(one.name).contains(StoredType.of(one.dataType)))
  }
}

object Table {
  /** Says that the version is not the user's, but the one that was newest at the analysis; and what table it is. */
  val Pinned = "projseg.pinned"
  /** Before the key of an object store's option. */
  val Storage = "storage."
  /** Names the view whose stored rows a table holds. */
  val OfView = "projseg.view"
  val NoResult: TreeNodeTag[Refusal] = TreeNodeTag[Refusal]("projseg.noResult")
  private val Parallelism = "parallelism"
  private val known = Set("path", "versionasof", Parallelism, Pinned, OfView, ChangedTable.Numbered) ++ ProjectionHints.names

  def unapply(plan: LogicalPlan): Option[Table] = of(plan).filterNot(_.isNumbered)

  /** A table, with the numbers of its rows or without. */
  def of(plan: LogicalPlan): Option[Table] = {
    val relation = plan match {
      case scan: DataSourceV2ScanRelation => Some(scan.relation)
      case found: DataSourceV2Relation => Some(found)
      case _ => None
    }
    relation.filter(isProjseg).flatMap { found =>
      val place = found.table match {
        case own: ProjsegTable => own.place
        case _ => Map.empty
      }
      val options = (optionsOf(found) ++ place).map { case (key, value) => key.toLowerCase -> value }
      val version = options.get("versionasof")
      val isPlain = options.keySet.filterNot(_.startsWith(Storage)).subsetOf(known) && version.forall(_.toLongOption.isDefined)
      options.get("path").filter(path => isPlain && !path.contains("#")).map { path =>
        Table(plan, path, version.map(_.toLong), options)
      }
    }
  }

  def optionsOf(relation: DataSourceV2Relation): Map[String, String] =
    relation.options.asCaseSensitiveMap().asScala.toMap

  /** What is known of a write to a table, by names in lower case: its own options, those of the relation, its place. */
  def optionsOfWrite(relation: DataSourceV2Relation, options: Map[String, String]): Map[String, String] = {
    val own = relation.table match {
      case table: ProjsegTable => table.declared ++ table.place
      case _ => Map.empty[String, String]
    }
    (optionsOf(relation) ++ options ++ own).map { case (name, text) => name.toLowerCase -> text }
  }

  def withOptions(relation: DataSourceV2Relation, options: Map[String, String]): DataSourceV2Relation =
    relation.copy(options = new CaseInsensitiveStringMap(options.asJava))

  /** The options of an object store among those of a relation or a write, which are in lower case. */
  def storageOf(options: Map[String, String]): Map[String, String] = options.collect {
    case (name, value) if name.startsWith(Storage) => name.stripPrefix(Storage) -> value
  }

  /** What is pinned of a table, as a reply tells its newest version. */
  def pinOf(newest: JsonNode): String =
    (newest.get("table_id").asText +: newest.get("results").elements().asScala.map(_.asText).toSeq).mkString(" ")

  def isOfPin(option: String): Boolean = Set(Pinned, "versionasof").contains(option.toLowerCase)

  def isOfProjseg(entry: CatalogTable): Boolean = entry.provider.exists(_.equalsIgnoreCase("projseg"))

  def isProjseg(relation: DataSourceV2Relation): Boolean = isProjseg(relation.table)
  def isProjseg(table: connector.catalog.Table): Boolean =
    table.isInstanceOf[ProjsegTable] || table.isInstanceOf[SourceTable]
}

/** A table of which rows are read, with their numbers or without. */
object RowsOf {
  def unapply(plan: LogicalPlan): Option[Table] = Table.of(plan)
}

/** The path of a name such as projseg.`/path`; no table or namespace of a catalog has a slash in its name. */
object ByPath {
  def unapply(parts: Seq[String]): Option[String] = parts match {
    case Seq(format, path) if format.equalsIgnoreCase("projseg") && path.contains("/") && SQLConf.get.runSQLonFile => Some(path)
    case _ => None
  }
}

/** Requests to the engine. */
class Requests(settings: Settings) {
  def of(operation: String, table: Table): ObjectNode = Engine.request(operation, place(table))

  def place(table: Table): Map[String, Any] =
    Map("location" -> table.location) ++ table.version.map("version" -> _) ++
      Option.when(table.storage.nonEmpty)("storage_options" -> table.storage)

  /** A request for groups: of `query`, with keys named g0 and on, and aggregates named a0 and on. */
  def groups(
      operation: String, table: Table, query: ObjectNode, keys: Seq[SqlText], aggregates: Seq[SqlText],
      filters: Seq[SqlText]): ObjectNode =
    sized(of(operation, table), query, keys, aggregates, filters)

  private def sized(
      request: ObjectNode, query: ObjectNode, keys: Seq[SqlText], aggregates: Seq[SqlText], filters: Seq[SqlText])
      : ObjectNode = {
    if (filters.nonEmpty) query.put("filter", filters.map(_.text).mkString(" AND "))
    Seq(("group_by", "g", keys), ("aggregators", "a", aggregates)).foreach { case (field, letter, found) =>
      val list = query.putArray(field)
      found.zipWithIndex.foreach { case (one, index) => list.add(s"${one.text} AS $letter$index") }
    }
    request.set[ObjectNode]("query", query)
    request.put("max_bytes", if (settings.isLocalEnabled) settings.localBytes else -1L)
    request.put("max_rows", settings.localRows)
  }

  /** A request for groups of joined tables. */
  def star(tree: StarTree, query: ObjectNode, keys: Seq[SqlText], calls: Seq[SqlText], texts: SqlTexts): Option[ObjectNode] =
    for {
      joins <- all(tree.joins)(join => all(join.on)(texts.of).map(on => Map("kind" -> join.kind, "on" -> on.map(_.text))))
      where <- all(tree.where)(texts.of)
    } yield {
      val arguments = Map("location" -> tree.tables.head.location, "tables" -> tree.tables.map(place), "joins" -> joins,
        "where" -> where.map(_.text), "keys" -> keys.map(_.text), "calls" -> calls.map(_.text))
      // The query's own texts are for the log.
      sized(Engine.request("star", arguments), query, keys, calls, where)
    }

  private def all[A, B](list: Seq[A])(of: A => Option[B]): Option[Seq[B]] = {
    val found = list.map(of)
    if (found.forall(_.isDefined)) Some(found.flatten) else None
  }

  /** The reply, or why the engine could not be asked. */
  def sent(request: ObjectNode): Either[Refusal, Reply] =
    Engine.ask(settings.python, request, limitMillis = Some(settings.localMillis))

  /** What is asked for a part of a plan, if the engine has an answer. */
  def attempted[T](tables: Seq[Table])(ask: => Either[Refusal, T]): Option[T] = planned.attempt(tables)(ask).toOption

  /** What was asked by `reply`. */
  val planned = new Planned(settings)

  /** The reply, or why there is none. */
  def reply(request: ObjectNode): Either[Refusal, Reply] = {
    val started = System.nanoTime()
    val found = sent(request).flatMap(reply =>
      reply.error.map(Refusal(s"the engine refused with ${reply.code}", _, reply.refusedViews)).toLeft(reply))
    if (request.has("query")) planned.add(request, found, System.nanoTime() - started)
    found
  }
}

/**
 * Names the version of each projseg table that a query reads, when the query is analysed.
 *
 * Whatever part of the query is planned later, and from whatever source, then reads the same rows.
 */
class PinVersions extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val replies = collection.mutable.Map[String, Either[Refusal, Reply]]()
    val requests = new Requests(new Settings(conf))
    plan.resolveOperators {
      case relation: DataSourceV2Relation =>
        relation match {
          case Table(table) if table.version.isDefined => PinVersions.withOwnSource(relation, table.version.get)
          case Table(table) =>
            replies.getOrElseUpdate(table.location, requests.sent(requests.of("version", table))) match {
              case Right(reply) if reply.error.isEmpty => pinned(relation, reply.content)
              // A table of the catalog that nobody has written to yet.
              case Right(reply) if relation.identifier.isDefined && reply.code == "PROJSEG_NOT_A_TABLE" =>
                LocalRelation(relation.output, Nil)
              case _ => relation
            }
          case _ => relation
        }
    }
  }

  private def pinned(relation: DataSourceV2Relation, newest: JsonNode): LogicalPlan = {
    val version = newest.get("version").asLong
    val pin = Map("versionAsOf" -> version.toString, Table.Pinned -> Table.pinOf(newest))
    PinVersions.withOwnSource(Table.withOptions(relation, Table.optionsOf(relation) ++ pin), version)
  }
}

private object PinVersions {
  /** The versions at which sources were first read. */
  private val first: java.util.Map[connector.catalog.Table, Long] =
    java.util.Collections.synchronizedMap(new java.util.WeakHashMap[connector.catalog.Table, Long])

  /**
   * A relation whose source reads this version: Spark keeps the reader of the first scan on a source, and gives
   * that of what is cached to later statements.
   */
  def withOwnSource(relation: DataSourceV2Relation, version: Long): DataSourceV2Relation = relation.table match {
    case _: ProjsegTable => relation
    case source if first.computeIfAbsent(source, _ => version) == version => relation
    case _ => relation.copy(table = Sources.table(
      StructType(relation.output.map(one => StructField(one.name, one.dataType, one.nullable))), java.util.Map.of()))
  }
}
