package org.apache.spark.sql.projseg

import java.util
import java.util.Locale

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{AnalysisContext, AsOfTimestamp, AsOfVersion, NamedRelation, NoSuchNamespaceException}
import org.apache.spark.sql.catalyst.analysis.{ResolvedTable, TimeTravelSpec, UnresolvedAttribute, UnresolvedFunction, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.{Alias, AttributeReference, Cast, CreateArray, EvalMode, Expression, Literal}
import org.apache.spark.sql.catalyst.expressions.{NamedArgumentExpression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{AppendData, DescribeRelation, LocalRelation, LogicalPlan, OverwriteByExpression, Project}
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogManager, Identifier, LookupCatalog, TableCapability}
import org.apache.spark.sql.connector.catalog.TableCatalog._
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{DataType, MetadataBuilder, StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A column of a definition: what queries see, and where it is stored, if it is. */
private[projseg] case class DefinedColumn(
    name: String, declared: DataType, stored: Option[String], storedType: Option[DataType], comment: Option[String]) {
  def field: StructField = comment.foldLeft(StructField(name, declared))(_.withComment(_))
  def isAsStored: Boolean = stored.contains(name) && storedType.contains(declared)
}

/** A table by the name that a catalog of definitions gives it; its columns are those declared. */
class DefinedTable(val catalog: ProjsegCatalog, val named: Identifier, title: String, described: JsonNode)
    extends ProjsegTable(
      title, DefinedTable.text(described, "location").getOrElse(""), None,
      StructType(DefinedTable.columns(described).map(_.field)), DefinedTable.properties(described)) {
  private[projseg] val declaredColumns: Seq[DefinedColumn] = DefinedTable.columns(described)
  /** The columns of the table, under the names that it gives them. */
  val stored: StructType = StructType(described.get("stored").elements.asScala.toSeq.map { one =>
    StructField(one.get("name").asText, StoredType.of(one.get("type").asText))
  })
  val tableVersion: Option[Long] = Option(described.get("tableVersion")).filterNot(_.isNull).map(_.asLong)
  /** Whether it is one of `information_schema`. */
  val isView: Boolean = described.get("type").asText == "view"
  /** Whether it is of files from outside. */
  val isExternal: Boolean = described.get("type").asText != "table"

  override def capabilities(): util.Set[TableCapability] =
    if (isExternal) util.EnumSet.of(TableCapability.BATCH_READ) else super.capabilities()

  /** A write that nobody planned by name, as of a stream: the table takes its definition first. */
  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    val found = catalog.planned(named, info.schema, info.options.asCaseSensitiveMap().asScala.toMap, isAdopted = true)
    val fits = found.get("columns").elements.asScala.toSeq.zip(info.schema).forall { case (column, field) =>
      column.get("stored").asText == field.name &&
        StoredType.of(column.get("type").asText) == StoredType.of(field.dataType)
    }
    if (!fits) throw ProjsegError.of("PROJSEG_DECLARED_TYPE",
      s"a column of $title is stored under another name or in another type; write it with INSERT INTO, or with writeTo")
    super.newWriteBuilder(info)
  }

  /** The same with what DESCRIBE EXTENDED says beside. */
  def extended: DefinedTable = new DefinedTable(catalog, named, title, described) {
    override def properties(): util.Map[String, String] = {
      val types = declaredColumns.map(one => s"${one.name}: ${one.storedType.map(_.sql).getOrElse("not stored")}")
      val more = Seq("definitionVersion" -> "version", "state" -> "state", "tableVersion" -> "tableVersion")
        .flatMap { case (name, field) => DefinedTable.text(described, field).map(name -> _) }
      (super.properties().asScala.toMap ++ more + ("storedTypes" -> types.mkString(", "))).asJava
    }
  }
}

private[projseg] object DefinedTable {
  /** What is known of a table, by the name that follows its own. */
  val metadata: Set[String] = SharedLists.texts("metadata").toSet
  /** The name that follows a table's own, of what is stored. */
  val Stored = "projseg stored"

  def text(node: JsonNode, field: String): Option[String] = Option(node.get(field)).filterNot(_.isNull).map(_.asText)

  def columns(described: JsonNode): Seq[DefinedColumn] = described.get("columns").elements.asScala.toSeq.map { one =>
    DefinedColumn(
      one.get("name").asText, StoredType.of(one.get("type").asText), text(one, "stored"),
      text(one, "storedType").map(StoredType.of), text(one, "comment"))
  }

  def properties(described: JsonNode): Map[String, String] = {
    val options = described.get("options").properties().asScala.map(one => one.getKey -> one.getValue.asText).toMap
    val isTable = described.get("type").asText == "table"
    val shown = if (isTable) options else options.map { case (name, value) => (OPTION_PREFIX + name) -> value }
    val isManaged = described.get("managed").asBoolean
    shown ++ Map(PROP_PROVIDER -> described.get("provider").asText) ++
      text(described, "location").map(PROP_LOCATION -> _) ++ text(described, "comment").map(PROP_COMMENT -> _) ++
      text(described, "owner").map(PROP_OWNER -> _) ++ Option.when(isManaged)(PROP_IS_MANAGED_LOCATION -> "true")
  }
}

/** Reads by a defined name: each declared column is an expression over those that are stored. */
private class DefinedRelations(session: ClassicSession) extends LookupCatalog {
  override protected val catalogManager: CatalogManager = session.sessionState.catalogManager

  /** The rows of a definition, as its columns are declared; None if the name is of anything else. */
  def of(parts: Seq[String], options: Map[String, String], asked: Option[TimeTravelSpec]): Option[LogicalPlan] =
    found(parts).map { case (catalog, named) =>
      val title = titleOf(catalog, named)
      SubqueryAlias(title, rows(catalog.defined(named, asked.map {
        case AsOfVersion(version) => "version" -> version.toLongOption.getOrElse(
          throw new IllegalArgumentException(s"version '$version' of table ${title.mkString(".")} is no whole number"))
        case AsOfTimestamp(micros) => "timestamp_us" -> micros
        case other => throw new UnsupportedOperationException(s"projseg does not know the version $other")
      }), options, isPinned = asked.isEmpty))
    }.orElse(if (asked.isEmpty) metadata(parts) else None)

  /** What is known of a table, as `t.segments`. */
  private def metadata(parts: Seq[String]): Option[LogicalPlan] = {
    val kind = parts.last.toLowerCase(Locale.ROOT)
    val isOfSession = parts.head.equalsIgnoreCase(CatalogManager.SESSION_CATALOG_NAME)
    if (parts.length < 2 || isOfSession || !DefinedTable.metadata.contains(kind)) None
    else found(parts.init).map { case (catalog, named) =>
      val (columns, rows) = catalog.metadata(named, kind)
      SubqueryAlias(
        titleOf(catalog, named) :+ kind,
        LocalRelation(columns.map(one => AttributeReference(one.name, one.dataType)()), rows))
    }
  }

  /** A stream by a defined name: what is declared, over a stream of what is stored, which Spark resolves. */
  def stream(asked: UnresolvedRelation): Option[LogicalPlan] =
    found(asked.multipartIdentifier).map { case (catalog, named) =>
    val (table, title) = (catalog.defined(named, None), titleOf(catalog, named))
    if (table.isExternal || table.tableVersion.isEmpty) throw ProjsegError.of("PROJSEG_NOT_A_TABLE",
      s"${title.map(SqlText.quoted).mkString(".")} has no table that a stream could read; write to it first")
    val zone = Some(session.sessionState.conf.sessionLocalTimeZone)
    val columns = table.declaredColumns.map { one =>
      val value = one.stored.map { name =>
        val stored = UnresolvedAttribute(Seq(name))
        if (one.storedType.contains(one.declared)) stored else Cast(stored, one.declared, zone, EvalMode.ANSI)
      }.getOrElse(Literal(null, one.declared))
      Alias(value, one.name)()
    }
    SubqueryAlias(title, Project(columns, asked.copy(multipartIdentifier = title :+ DefinedTable.Stored)))
  }

  private def titleOf(catalog: ProjsegCatalog, named: Identifier): Seq[String] =
    catalog.name +: (if (named.namespace.isEmpty) Seq("default") else named.namespace.toSeq) :+ named.name

  /** The catalog of definitions and the name in it, if there is such a table. */
  def found(parts: Seq[String]): Option[(ProjsegCatalog, Identifier)] = {
    val place = AnalysisContext.get.catalogAndNamespace
    val whole = if (parts.length == 1) place ++ parts else parts
    if (place.isEmpty && session.sessionState.catalog.isTempView(parts)) None
    else whole match {
      case NonSessionCatalogAndIdentifier(catalog: ProjsegCatalog, named)
          if catalog.isOfDefinitions && named.namespace.length <= 1 && exists(catalog, named) => Some(catalog -> named)
      case _ => None
    }
  }

  private def exists(catalog: ProjsegCatalog, named: Identifier): Boolean =
    try catalog.tableExists(named) catch { case _: NoSuchNamespaceException => false }

  private def rows(table: DefinedTable, options: Map[String, String], isPinned: Boolean): LogicalPlan =
    table.tableVersion match {
      case _ if table.isView =>
        val rows = new DescribedRows(table.catalog, table.named, table.name, table.structure)
        DataSourceV2Relation.create(rows, Some(table.catalog), Some(table.named))
      case _ if table.isExternal => files(table.catalog, Some(table.named), Map.empty)
      case None => LocalRelation(table.structure.map(one => AttributeReference(one.name, one.dataType)()), Nil)
      case Some(version) =>
        val pin = Map("versionAsOf" -> version.toString) ++ Option.when(isPinned)(Table.Pinned -> "true")
        val below = new ProjsegTable(table.name, table.location, None, table.stored, Map.empty)
        val relation = DataSourceV2Relation.create(
          below, Some(table.catalog), Some(table.named), new CaseInsensitiveStringMap((options ++ pin).asJava))
        val columns = table.declaredColumns.map(column(_, relation))
        if (columns == relation.output) relation else Project(columns, relation)
    }

  /** The rows of files from outside, of a definition with what it leaves open, or of parameters alone. */
  def files(catalog: ProjsegCatalog, named: Option[Identifier], parameters: Map[String, Any]): LogicalPlan =
    files(catalog.files(named, parameters, session.sessionState.conf.sessionLocalTimeZone))

  private def files(found: JsonNode): LogicalPlan = {
    val columns = StructType(found.get("columns").elements.asScala.toSeq.map { one =>
      StructField(one.get("name").asText, StoredType.of(one.get("type").asText))
    })
    if (found.has("spark")) ofSpark(found.get("spark"), columns) else ofReader(found, columns)
  }

  /** Files that Spark's own source reads; which ones, the engine has said. */
  private def ofSpark(source: JsonNode, columns: StructType): LogicalPlan = {
    val options = source.get("options").properties().asScala.map(one => one.getKey -> one.getValue.asText).toMap
    val read = session.read.format(source.get("format").asText).options(options)
    val shaped = if (columns.isEmpty) read else read.schema(columns)
    shaped.load(source.get("paths").elements.asScala.map(_.asText).toSeq: _*).queryExecution.analyzed
  }

  private def ofReader(found: JsonNode, columns: StructType): LogicalPlan = {
    val source = Sources.table(columns, util.Collections.emptyMap[String, String]())
    DataSourceV2Relation.create(
      source, None, None, new CaseInsensitiveStringMap(util.Map.of("projseg.external", found.get("files").asText)))
  }

  /** The files that a table function of a definition's name is of. */
  def ofFunction(name: Seq[String], arguments: Seq[Expression]): Option[LogicalPlan] =
    if (name.length == 1 && name.head.equalsIgnoreCase(DefinedFunctions.Files))
      Some(external(DefinedFunctions.parameters(name, arguments)))
    else if (name.length < 2) None
    else found(name).map { case (catalog, named) =>
      files(catalog, Some(named), DefinedFunctions.parameters(name, arguments))
    }

  /** Files that parameters alone describe, read with what the current catalog allows, or the environment. */
  private def external(parameters: Map[String, Any]): LogicalPlan = catalogManager.currentCatalog match {
    case catalog: ProjsegCatalog if catalog.isOfDefinitions => files(catalog, None, parameters)
    case _ =>
      val conf = session.sessionState.conf
      val request =
        Engine.request("external_files", Map("parameters" -> parameters, "timezone" -> conf.sessionLocalTimeZone))
      files(Edit.reply(new Settings(conf), request, None).content.get("result"))
  }

  private def column(declared: DefinedColumn, relation: DataSourceV2Relation): NamedExpression = {
    val source = declared.stored.flatMap(name => relation.output.find(_.name == name))
    val comment = declared.comment.map(text => new MetadataBuilder().putString("comment", text).build())
    source match {
      case Some(stored) if declared.isAsStored && comment.isEmpty => stored
      case Some(stored) if stored.dataType == declared.declared =>
        Alias(stored, declared.name)(explicitMetadata = comment)
      case Some(stored) =>
        val zone = Some(session.sessionState.conf.sessionLocalTimeZone)
        Alias(Cast(stored, declared.declared, zone, EvalMode.ANSI), declared.name)(explicitMetadata = comment)
      case None => Alias(Literal(null, declared.declared), declared.name)(explicitMetadata = comment)
    }
  }
}

/**
 * Writes by a defined name: rows under declared names and types, to the columns that are stored. The columns and
 * the layout that a table lacks are added in the commit of the rows, as the engine plans it here.
 */
class BindDefinitions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case write: AppendData if write.resolved =>
      bound(write.table, write.query, write.writeOptions, isFiltered = false).map { case (table, query, options) =>
        write.copy(table = table, query = query, writeOptions = options)
      }.getOrElse(write)
    case write: OverwriteByExpression if write.resolved =>
      val isFiltered = write.writeOptions.keys.exists(_.equalsIgnoreCase("replaceWhere"))
      bound(write.table, write.query, write.writeOptions, isFiltered).map { case (table, query, options) =>
        write.copy(table = table, query = query, writeOptions = options)
      }.getOrElse(write)
    case described: DescribeRelation if described.isExtended => described.relation match {
      case named @ ResolvedTable(_, _, table: DefinedTable, _) =>
        described.copy(relation = named.copy(table = table.extended))
      case _ => described
    }
  }

  private def bound(table: NamedRelation, query: LogicalPlan, given: Map[String, String], isFiltered: Boolean)
      : Option[(DataSourceV2Relation, LogicalPlan, Map[String, String])] = table match {
    case relation: DataSourceV2Relation => relation.table match {
      case defined: DefinedTable =>
        val options = Table.optionsOf(relation) ++ given
        val declared = StructType(relation.output.map(one => StructField(one.name, one.dataType)))
        val planned = defined.catalog.planned(defined.named, declared, options, isFiltered)
        val columns = planned.get("columns").elements.asScala.toSeq.map { one =>
          StructField(one.get("stored").asText, StoredType.of(one.get("type").asText))
        }
        val zone = Some(session.asInstanceOf[ClassicSession].sessionState.conf.sessionLocalTimeZone)
        val values = query.output.zip(columns).map { case (value, column) =>
          val stored =
            if (value.dataType == column.dataType) value else Cast(value, column.dataType, zone, EvalMode.ANSI)
          Alias(stored, column.name)()
        }
        val layout = planned.get("layout").properties().asScala.map(one => one.getKey -> one.getValue.asText).toMap
        val own = layout + (DefinedWrites.Plan -> planned.get("plan").asText)
        val target =
          new ProjsegTable(defined.name, planned.get("location").asText, None, StructType(columns), Map.empty, own)
        val output = columns.map(one => AttributeReference(one.name, one.dataType)())
        val kept = given.filterNot { case (name, _) => DefinedWrites.layout.contains(name.toLowerCase) }
        val left =
          Table.optionsOf(relation).filterNot { case (name, _) => DefinedWrites.layout.contains(name.toLowerCase) }
        Some((Table.withOptions(relation.copy(table = target, output = output), left), Project(values, query), kept))
      case _ => None
    }
    case _ => None
  }
}

/** Arguments of table functions that stand for files from outside. */
private object DefinedFunctions {
  /** The function of files without a definition. */
  val Files = "projseg_external"

  def parameters(name: Seq[String], arguments: Seq[Expression]): Map[String, Any] = arguments.map {
    case NamedArgumentExpression(key, value) => key -> plain(value)
    case _ => throw ProjsegError.of("PROJSEG_UNKNOWN_PARAMETER",
      s"arguments of ${name.mkString(".")} have names: files => array('a.csv')")
  }.toMap

  private def plain(value: Expression): Any = value match {
    case Literal(null, _) => null
    case literal: Literal => literal.value match {
      case text: org.apache.spark.unsafe.types.UTF8String => text.toString
      case other => other
    }
    case CreateArray(items, _) => items.map(plain).asJava
    case made: UnresolvedFunction if made.nameParts.map(_.toLowerCase) == Seq("array") =>
      made.arguments.map(plain).asJava
    case other => throw ProjsegError.of("PROJSEG_UNKNOWN_PARAMETER",
      s"'${other.sql}' is no constant; arguments are texts, numbers, true, false and arrays of texts")
  }
}

private object DefinedWrites {
  /** The option in which a write gets its plan. */
  val Plan = "projseg.plan"
  /** Options by which a statement lays its own segments out: the plan has them. */
  val layout = Set("segmentgranularity", "clusterby", "targetsegmentrows")
}
