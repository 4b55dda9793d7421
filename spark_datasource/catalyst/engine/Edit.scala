package org.apache.spark.sql.projseg

import com.fasterxml.jackson.databind.JsonNode

/** Spark's part of a request, which runs what the engine leaves to tasks. */
trait SparkWork {
  def run(job: JsonNode): JsonNode
  /** The error of a statement, with that of its jobs as the cause. */
  def reason(error: Exception): Throwable
}

/** Requests that may change a table, each sent once. */
object Edit {
  def reply(settings: Settings, request: JsonNode, limitMillis: Option[Long], work: Option[SparkWork] = None): Reply = {
    val reply = work.fold(Engine.ask(settings.python, request, isRepeatable = false, limitMillis))(found =>
      Engine.ask(settings.python, request, isRepeatable = false, limitMillis, found.run))
      .fold(refusal => throw ProjsegError.of(s"$refusal; look at the table before you repeat a change"), identity)
    reply.error.foreach { message =>
      val error = ProjsegError.of(s"[${reply.code}] $message")
      throw work.fold[Throwable](error)(_.reason(error))
    }
    reply
  }
}
