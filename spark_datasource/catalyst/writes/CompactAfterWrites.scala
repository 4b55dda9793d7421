package org.apache.spark.sql.projseg

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.plans.logical.{AppendData, LogicalPlan, OverwriteByExpression}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Takes the compaction that follows a commit, where a table's `autoCompact` asks for one, from the process
 * that commits, as that has no tasks; `CompactAfterWrites` has them.
 */
class DeferCompaction extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!new Settings(conf).isEnabled) plan
    else plan.resolveOperators {
      case write: AppendData =>
        deferred(write.table, write.writeOptions).map(options => write.copy(writeOptions = options)).getOrElse(write)
      case write: OverwriteByExpression =>
        deferred(write.table, write.writeOptions).map(options => write.copy(writeOptions = options)).getOrElse(write)
    }

  /** The write's options, which say from which version on others look for its segments. */
  private def deferred(table: NamedRelation, options: Map[String, String]): Option[Map[String, String]] =
    for {
      place <- CompactionTarget.of(table, options) if place.since.isEmpty
      reply <- new Requests(new Settings(conf)).reply(place.request("policy")).toOption
      since <- Option(reply.content.get("since"))
    } yield options + (CompactionTarget.Since -> since.asText)
}

/** Compacts tables after writes of which `DeferCompaction` took that. */
class CompactAfterWrites(session: SparkSession) extends AfterWrites {
  override protected def after(write: LogicalPlan): Option[() => Unit] = write match {
    case V2WriteOfTable(relation, options) =>
      CompactionTarget.of(relation, options).filter(_.since.isDefined).map(place => () => compact(place))
    case _ => None
  }

  private def compact(place: CompactionTarget): Unit = {
    val classic = session.asInstanceOf[ClassicSession]
    val settings = new Settings(classic.sessionState.conf)
    val request = place.request("compact_by_policy").put("small_bytes", settings.smallBytes)
    val jobs = new SegmentJobs(classic)
    Engine.ask(settings.python, request, isRepeatable = false, runJob = jobs.run) match {
      case Right(reply) => reply.error.foreach(message => throw jobs.reason(ProjsegError.of(message)))
      case Left(refusal) => warn(refusal.toString)
    }
  }
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
