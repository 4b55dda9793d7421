package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.connector
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
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
  private val known =
    Set("path", "versionasof", Parallelism, Pinned, OfView, ChangedTable.Numbered) ++ HintedContext.options

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
      val isPlain =
        options.keySet.filterNot(_.startsWith(Storage)).subsetOf(known) && version.forall(_.toLongOption.isDefined)
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
