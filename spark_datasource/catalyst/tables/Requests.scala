package org.apache.spark.sql.projseg

import com.fasterxml.jackson.databind.node.ObjectNode

/** Requests to the engine. */
class Requests(settings: Settings) {
  def of(operation: String, table: Table): ObjectNode = Engine.request(operation, place(table))

  def place(table: Table): Map[String, Any] =
    Map("location" -> table.location) ++ table.version.map("version" -> _) ++
      Option.when(table.storage.nonEmpty)("storage_options" -> table.storage)

  /** The reply, or why the engine could not be asked. */
  def sent(request: ObjectNode): Either[Refusal, Reply] =
    Engine.ask(settings.python, request, limitMillis = Some(settings.localMillis))

  /** The reply, or why there is none. */
  def reply(request: ObjectNode): Either[Refusal, Reply] = sent(request).flatMap(reply =>
    reply.error.map(Refusal(s"the engine refused with ${reply.code}", _, reply.refusedViews)).toLeft(reply))
}
