package org.apache.spark.sql.projseg

import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.{Left, Right}

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.catalyst.util.RowDeltaUtils.{DELETE_OPERATION, OPERATION_COLUMN}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.write.RowLevelOperationTable
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{LongType, StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A change of rows: Spark computes which rows leave the table and which are written, its tasks write
 * segments, and one commit publishes both.
 *
 * @param query rows of `__row_operation`, the table's columns where rows are written, and numbers of rows
 * @param quick the condition of a DELETE, which the engine may do by itself if that is little work
 * @param dependsOnAll whether rows that others add meanwhile are a conflict
 * @param columns which counts of rows are returned
 */
case class RowChange(
    target: ChangedTable, operation: String, asked: Map[String, String], query: LogicalPlan,
    quick: Option[Map[String, Any]],
    dependsOnAll: Boolean, columns: Seq[String])
    extends LeafRunnableCommand {
  override val output: Seq[Attribute] = columns.map(AttributeReference(_, LongType)())
  override def innerChildren: Seq[LogicalPlan] = Seq(query)

  override def run(session: SparkSession): Seq[Row] = {
    val classic = session.asInstanceOf[ClassicSession]
    val counts = quick.flatMap(byEngine(classic, _)).getOrElse(byTasks(classic, RowChange.tries))
    if (columns.isEmpty) Nil else Seq(Row.fromSeq(columns.map(counts.getOrElse(_, 0L))))
  }

  /** What the engine did by itself; nothing if it is more work than that of one process. */
  private def byEngine(session: ClassicSession, arguments: Map[String, Any]): Option[Map[String, Long]] = {
    val settings = new Settings(session.sessionState.conf)
    val request = Engine.request(operation, arguments ++ place)
    Some(Edit.reply(settings, request, Some(settings.localMillis)).content.get("counts")).filterNot(_.isNull)
      .map(counted)
  }

  private def byTasks(session: ClassicSession, tries: Int): Map[String, Long] = {
    val settings = new Settings(session.sessionState.conf)
    val newest = new Requests(settings).reply(Engine.request("version", place))
    val version = newest match {
      case Right(reply) => Some(reply.content.get("version").asLong)
      case Left(refusal) if refusal.words.endsWith("PROJSEG_NOT_A_TABLE") => None
      case Left(refusal) => throw ProjsegError.of(s"nothing was changed, as the table's version is not known: $refusal")
    }
    // A table that nobody has written to has no rows.
    if (version.isEmpty && !dependsOnAll) return Map.empty
    val writeId = UUID.randomUUID().toString.replace("-", "")
    try session.sessionState.executePlan(write(session, version, writeId)).assertCommandExecuted()
    catch { case error: Exception =>
      val messages = SegmentJobs.messages(error)
      if (tries > 1 && messages.contains("PROJSEG_COMMIT_CONFLICT")) return byTasks(session, tries - 1)
      // What projseg says is one line, wherever it was raised.
      throw RowChange.own.findFirstIn(messages).map(ProjsegError.of(_).initCause(error)).getOrElse(error)
    }
    val request = Engine.request("changed", place ++ version.map("since" -> _) + ("write_id" -> writeId))
    counted(Edit.reply(settings, request, Some(settings.localMillis)).content.get("counts"))
  }

  private def place: Map[String, Any] = {
    val storage = Table.storageOf(target.declared)
    Map("location" -> target.location) ++ Option.when(storage.nonEmpty)("storage_options" -> storage)
  }

  private def counted(counts: JsonNode): Map[String, Long] =
    counts.properties().asScala.map(one => one.getKey -> one.getValue.asLong).toMap

  private def write(session: ClassicSession, version: Option[Long], writeId: String): LogicalPlan = {
    val rows =
      MatchedKeys.narrowed(query.transformWithSubqueries(read(version)), session)
        .transformAllExpressions(RowChange.asText)
    val change = Engine.json.createObjectNode().put("write_id", writeId).put("operation", operation)
      .put("depends_on_all", dependsOnAll)
    version.foreach(change.put("version", _))
    change.set[JsonNode]("asked", Engine.json.valueToTree[JsonNode](asked.asJava))
    val projected = Project(outputs(rows), rows)
    val structure = StructType(projected.output.map(one => StructField(one.name, one.dataType)))
    val options = target.place ++ target.declared + (RowChange.Change -> Engine.json.writeValueAsString(change))
    AppendData.byPosition(
      DataSourceV2Relation.create(Sources.table(structure, java.util.Collections.emptyMap[String, String]()), None,
          None, new CaseInsensitiveStringMap(options.asJava)), projected)
  }

  /**
   * What is done with each row, its number, and its values; a null that is to be stored in a column
   * without nulls fails.
   */
  private def outputs(rows: LogicalPlan): Seq[NamedExpression] = {
    def named(name: String) = rows.output.find(_.name == name).get
    val (operation, number) = (named(OPERATION_COLUMN), named(ChangedTable.Number))
    val values = rows.output.filterNot(one => one == operation || one == number)
    val isDeleted = EqualTo(operation, Literal(DELETE_OPERATION))
    val stored = values.zip(target.stated).map { case (value, column) =>
      val open = value.withNullability(true)
      val checked =
        if (target.withoutNulls.contains(column.name)) If(isDeleted, open, AssertNotNull(open, Seq(column.name)))
        else open
      Alias(checked, column.name)()
    }
    Seq(operation, Alias(number, ChangedTable.Number)()) ++ stored
  }

  /** Reads of the table are of one version, and return numbers where rows are to be changed. */
  private def read(version: Option[Long]): PartialFunction[LogicalPlan, LogicalPlan] = {
    case relation: DataSourceV2Relation if RowChange.isTarget(relation) =>
      val stated = target.stated.map(one => one.name -> one.metadata).toMap
      val columns = relation.output.map(one =>
        stated.get(one.name).map(one.withMetadata(_).withNullability(true)).getOrElse(one))
      val numbered =
        if (columns.exists(_.name == ChangedTable.Number)) Map(ChangedTable.Numbered -> "true") else Map.empty
      version.map { number =>
        val stored = target.declared.filter { case (name, _) => name.startsWith(Table.Storage) }
        val options =
          stored ++ target.place ++ Map("versionAsOf" -> number.toString, Table.Pinned -> "true") ++ numbered
        val structure = StructType(columns.map(one => StructField(one.name, one.dataType)))
        relation.copy(
          table = Sources.table(structure, java.util.Collections.emptyMap[String, String]()), output = columns,
          options = new CaseInsensitiveStringMap(options.asJava))
      }.getOrElse(LocalRelation(columns, Nil))
    case relation: DataSourceV2Relation if version.isDefined && Table.unapply(relation).exists(one =>
        one.location == target.location && (one.version.isEmpty || one.isPinned)) =>
      Table.withOptions(
        relation, Table.optionsOf(relation) ++ Map("versionAsOf" -> version.get.toString, Table.Pinned -> "true"))
    // What an instruction of MERGE leaves out of account: rows in the table may hold nulls in any column.
    case rows: MergeRows => rows.copy(output = rows.output.map(one =>
      if (one.name == OPERATION_COLUMN) one else one.withNullability(true)))
  }
}

object RowChange {
  /** The option of a write that changes rows. */
  val Change = "projseg.change"
  private val tries = 3
  private val own = """(?m)\[PROJSEG_[A-Z_]+\] .*?(?= SQLSTATE: \w+$|$)""".r

  /**
   * Columns of type VARCHAR as texts: lengths were checked where values were aligned, and Spark 4.0 would compare the
   * types again where its optimizer takes away a cast.
   */
  private val asText: PartialFunction[Expression, Expression] = {
    case one: AttributeReference if !ChangedTable.isPadded(one.metadata) => CharVarcharUtils.cleanAttrMetadata(one)
  }

  private def isTarget(relation: DataSourceV2Relation): Boolean = relation.table match {
    case _: RowLevelOperationTable | _: ChangedTable => true
    case _ => false
  }
}
