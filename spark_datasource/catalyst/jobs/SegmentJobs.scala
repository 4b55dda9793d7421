package org.apache.spark.sql.projseg

import java.util.UUID

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.SparkContext
import org.apache.spark.sql.Row
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}

/**
 * Runs what the engine leaves to Spark's tasks: a read of the data source, each partition of which writes a
 * segment. Its rows go back to the engine, which commits.
 */
class SegmentJobs(session: ClassicSession) extends SparkWork {
  private val context = session.sparkContext

  private var failure: Option[Throwable] = None

  /** An interruption is an error itself. */
  override def reason(error: Exception): Throwable = failure match {
    case Some(interruption: InterruptedException) => interruption
    case Some(cause) => error.initCause(cause)
    case None => error
  }

  /** The answer to the engine: the messages of the tasks, or Spark's message. */
  override def run(job: JsonNode): JsonNode = {
    val tag = s"projseg-${UUID.randomUUID()}"
    try if (job.has("select")) new SelectJobs(session).run(job)
    else Engine.json.createObjectNode().set[JsonNode]("messages", Engine.json.valueToTree(messagesOf(job, tag)))
    catch { case error @ (NonFatal(_) | _: InterruptedException) =>
      failure = Some(error)
      context.cancelJobsWithTag(tag)
      awaitTasks(tag)
      Engine.json.createObjectNode().put("failed", SegmentJobs.messages(error))
    }
  }

  private def messagesOf(job: JsonNode, tag: String): java.util.List[String] = {
    val reader = session.read.format("projseg").option("projseg.work", job.get("work").asText)
    job.get("storage_options").properties()
      .asScala.foreach(one => reader.option(Table.Storage + one.getKey, one.getValue.asText))
    val description = context.getLocalProperty(SparkContext.SPARK_JOB_DESCRIPTION)
    context.addJobTag(tag)
    context.setJobDescription(job.get("description").asText)
    try reader.load(job.get("location").asText).collect().map((row: Row) => row.getString(0)).toSeq.asJava
    finally {
      context.setJobDescription(description)
      context.removeJobTag(tag)
    }
  }

  /** Waits until the tasks of a failed job are stopped, so that they leave no file, or a while. */
  private def awaitTasks(tag: String): Unit = {
    val tracker = context.statusTracker
    def isActive: Boolean = tracker.getJobIdsForTag(tag).exists(job =>
      tracker.getJobInfo(job).exists(
          _.stageIds.exists(stage => tracker.getStageInfo(stage).exists(_.numActiveTasks > 0))))
    val end = System.nanoTime() + SegmentJobs.waitNanos
    while (isActive && System.nanoTime() < end) Thread.sleep(100)
  }
}

private object SegmentJobs {
  val waitNanos: Long = 10L * 1000 * 1000 * 1000

  /** The messages of an error and its causes: the last of them is what happened first. */
  def messages(error: Throwable): String =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).map(_.toString).mkString("\n")
}
