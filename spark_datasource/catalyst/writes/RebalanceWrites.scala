package org.apache.spark.sql.projseg

import java.time.LocalDate

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{DataType, DateType, LongType, TimestampNTZType, TimestampType}

/**
 * Brings the rows of a chunk of time together before they are written, as every task writes segments
 * of its own: 200 tasks would make 200 small segments of each day.
 */
class RebalanceWrites extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val settings = new Settings(conf)
    if (!settings.isEnabled || !settings.rebalances) plan
    else plan.resolveOperators {
      case write: AppendData if isOpen(write.query) =>
        rebalanced(write.table, write.writeOptions, write.query, settings).map(query => write.copy(query = query))
          .getOrElse(write)
      case write: OverwriteByExpression if isOpen(write.query) =>
        rebalanced(write.table, write.writeOptions, write.query, settings).map(query => write.copy(query = query))
          .getOrElse(write)
    }
  }

  /** Whether nobody has said yet which rows belong together, and they may come from many tasks. */
  private def isOpen(query: LogicalPlan): Boolean = query.resolved && (query match {
    case Project(_, below) => isOpen(below)
    case SubqueryAlias(_, below) => isOpen(below)
    case view: View => isOpen(view.child)
    case _: RebalancePartitions => false
    case by: RepartitionByExpression => by.partitionExpressions.isEmpty
    case Repartition(_, isShuffled, _) => isShuffled
    case Sort(_, isGlobal, _, _) => !isGlobal
    case other => !isSmall(other)
  })

  private def isSmall(query: LogicalPlan): Boolean =
    query.maxRows.exists(_ <= RebalanceWrites.FewRows) && !query.exists {
      case _: LocalRelation | _: OneRowRelation => false
      case _: LeafNode => true
      case _: RepartitionOperation => true
      case _ => false
    }

  private def rebalanced(
      target: NamedRelation, options: Map[String, String], query: LogicalPlan,
      settings: Settings): Option[LogicalPlan] =
    target match {
      case relation: DataSourceV2Relation if Table.isProjseg(relation) =>
        chunk(relation, options, query, settings).map(RebalancePartitions(_, query))
      case _ => None
    }

  /** What rows of one chunk share; nothing if the table is one chunk, and None if that is not known. */
  private def chunk(
      relation: DataSourceV2Relation, options: Map[String, String], query: LogicalPlan, settings: Settings)
      : Option[Seq[Expression]] = {
    val known = Table.optionsOfWrite(relation, options)
    val request = Engine.json.createObjectNode().put("op", "layout")
    Seq("location" -> "path", "time_column" -> "timecolumn", "segment_granularity" -> "segmentgranularity")
      .foreach { case (field, option) => known.get(option).foreach(request.put(field, _)) }
    if (!request.has("location")) return None
    val storage = Table.storageOf(known)
    if (storage.nonEmpty) request.set[JsonNode]("storage_options", Engine.json.valueToTree[JsonNode](storage.asJava))
    new Requests(settings).reply(request).toOption.map(_.content).flatMap { layout =>
      val months = layout.get("months").asInt
      val micros = layout.get("micros").asLong
      if (months == 0 && micros == 0) Some(Nil)
      else query.output.find(one => conf.resolver(one.name, layout.get("time_column").asText) && isTime(one))
        .map { time =>
        Seq(TimeChunk(time, months, micros, layout.get("origin").asLong))
      }
    }
  }

  private def isTime(column: Attribute): Boolean =
    Set[DataType](TimestampType, TimestampNTZType, DateType).contains(column.dataType)
}

private object RebalanceWrites {
  /** So many rows of a statement's own are written by the tasks that have them. */
  val FewRows = 10000L
}

/** The number of the chunk of time that an instant lies in, by the clock of UTC. */
case class TimeChunk(child: Expression, months: Int, micros: Long, start: Long)
    extends UnaryExpression with CodegenFallback {
  private val day = 86400000000L
  override def dataType: DataType = LongType
  override def prettyName: String = "projseg_time_chunk"

  override protected def nullSafeEval(value: Any): Any = {
    val instant = value match {
      case days: Int => days * day
      case instant: Long => instant
    }
    if (months == 0) Math.floorDiv(instant - start, micros)
    else {
      val date = LocalDate.ofEpochDay(Math.floorDiv(instant, day))
      Math.floorDiv(date.getYear * 12L + date.getMonthValue - 1, months.toLong)
    }
  }

  override protected def withNewChildInternal(changed: Expression): TimeChunk = copy(child = changed)
}
