package org.apache.spark.sql.projseg

import com.fasterxml.jackson.databind.node.ObjectNode

/** Requests for parts of a plan. */
class PlanRequests(settings: Settings) extends Requests(settings) {
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
  def star(tree: StarTree, query: ObjectNode, keys: Seq[SqlText], calls: Seq[SqlText],
      texts: SqlTexts): Option[ObjectNode] =
    for {
      joins <- all(tree.joins)(join =>
        all(join.on)(texts.of).map(on => Map("kind" -> join.kind, "on" -> on.map(_.text))))
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

  /** What is asked for a part of a plan, if the engine has an answer. */
  def attempted[T](tables: Seq[Table])(ask: => Either[Refusal, T]): Option[T] = planned.attempt(tables)(ask).toOption

  /** What was asked by `reply`. */
  val planned = new Planned(settings)

  /** Replies, and how long each took, to requests that were asked before it was known whether they count. */
  private val early = collection.mutable.Map[ObjectNode, (Either[Refusal, Reply], Long)]()

  /** The reply to a request that `reply` is perhaps asked for later. */
  def foreseen(request: ObjectNode): Either[Refusal, Reply] = early.getOrElseUpdate(request, timed(request))._1

  override def reply(request: ObjectNode): Either[Refusal, Reply] = {
    val (found, nanos) = early.getOrElse(request, timed(request))
    if (request.has("query")) planned.add(request, found, nanos)
    found
  }

  private def timed(request: ObjectNode): (Either[Refusal, Reply], Long) = {
    val started = System.nanoTime()
    val found = super.reply(request)
    (found, System.nanoTime() - started)
  }
}
