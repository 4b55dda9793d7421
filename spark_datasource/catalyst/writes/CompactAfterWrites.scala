package org.apache.spark.sql.projseg

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.plans.logical.{AppendData, LogicalPlan, OverwriteByExpression}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.datasources.v2.{AppendDataExec, DataSourceV2Relation, OverwriteByExpressionExec}

/**
 * Takes the compaction that follows a commit, where a table's `autoCompact` asks for one, from the process
 * that commits, as that has no tasks; `CompactAfterWrites` has them.
 */
class DeferCompaction extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!new Settings(conf).isEnabled) plan
    else plan.resolveOperators {
      case write: AppendData =>
        deferred(write.table, write.writeOptions)
          .map { case (table, options) => write.copy(table = table, writeOptions = options) }.getOrElse(write)
      case write: OverwriteByExpression =>
        deferred(write.table, write.writeOptions)
          .map { case (table, options) => write.copy(table = table, writeOptions = options) }.getOrElse(write)
    }

  /** The target of a write and the write's options, which say from which version on others look for its segments. */
  private def deferred(table: NamedRelation, options: Map[String, String]): Option[(NamedRelation, Map[String, String])] =
    for {
      place <- CompactionTarget.of(table, options) if place.since.isEmpty
      reply <- new Requests(new Settings(conf)).reply(place.request("policy")).toOption
      since <- Option(reply.content.get("since"))
    } yield {
      val relation = table.asInstanceOf[DataSourceV2Relation]
      val (own, added) = (Table.optionsOf(relation), CompactionTarget.Since -> since.asText)
      // Spark takes options from one of the two places, or from both if they are equal.
      val target = if (own.isEmpty) relation else Table.withOptions(relation, own + added)
      (target, if (own.nonEmpty && options.isEmpty) options else options + added)
    }
}

/** Compacts tables after writes of which `DeferCompaction` took that; what goes wrong fails no write. */
class CompactAfterWrites(session: SparkSession) extends ColumnarRule with Logging {
  override def preColumnarTransitions: Rule[SparkPlan] = new Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = plan match {
      case write: AppendDataExec => followed(write, write.refreshCache)(after => write.copy(refreshCache = after))
      case write: OverwriteByExpressionExec => followed(write, write.refreshCache)(after => write.copy(refreshCache = after))
      case other => other
    }
  }

  private def followed(write: SparkPlan, after: () => Unit)(changed: (() => Unit) => SparkPlan): SparkPlan = {
    val place = write.logicalLink.flatMap {
      case logical: AppendData => CompactionTarget.of(logical.table, logical.writeOptions)
      case logical: OverwriteByExpression => CompactionTarget.of(logical.table, logical.writeOptions)
      case _ => None
    }.filter(_.since.isDefined)
    place.map { found =>
      val made = changed(() => { after(); compact(found) })
      made.copyTagsFrom(write)
      made
    }.getOrElse(write)
  }

  private def compact(place: CompactionTarget): Unit = {
    val classic = session.asInstanceOf[ClassicSession]
    val settings = new Settings(classic.sessionState.conf)
    val request = place.request("compact_by_policy").put("small_bytes", settings.smallBytes)
    val jobs = new SegmentJobs(classic)
    try Engine.ask(settings.python, request, isRepeatable = false, runJob = jobs.run) match {
      case Right(reply) => reply.error.foreach(message => throw jobs.reason(Statement.failed(message)))
      case Left(refusal) => warn(refusal.toString)
    } catch { case NonFatal(error) => warn(error.getMessage) }
  }

  private def warn(what: String): Unit = logWarning(s"a write was committed; the compaction that follows it failed: $what")
}

/** A table that is written to, and the version before the write, if others compact it. */
private case class CompactionTarget(location: String, storage: Map[String, String], since: Option[Long]) {
  def request(operation: String) = Engine.request(
    operation, Map("location" -> location, "storage_options" -> storage) ++ since.map("since" -> _))
}

private object CompactionTarget {
  val Since = "projseg.compactsince"

  def of(table: NamedRelation, options: Map[String, String]): Option[CompactionTarget] = table match {
    case relation: DataSourceV2Relation if Table.isProjseg(relation) =>
      val known = Table.optionsOfWrite(relation, options)
      known.get("path").map(CompactionTarget(_, Table.storageOf(known), known.get(Since).flatMap(_.toLongOption)))
    case _ => None
  }
}
