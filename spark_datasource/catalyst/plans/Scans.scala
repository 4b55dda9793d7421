package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import org.apache.spark.sql.catalyst.expressions.{Alias, And, Attribute, AttributeMap, AttributeReference}
import org.apache.spark.sql.catalyst.expressions.{AttributeSet, Expression, NamedExpression, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.types._

/** Reads of rows, of which only the columns and rows that are needed are read. */
class Scans(settings: Settings, reads: PlannedReads, requests: PlanRequests, texts: SqlTexts) {

  /** A scan below projections and filters; `note` says why no more than its rows are asked. */
  def scanned(
      projects: Seq[NamedExpression], where: Seq[Expression], table: Table, note: Option[Refusal])
      : Either[Refusal, LogicalPlan] = {
    val filters = NullRejection.withoutImplied(where)
    val conditions = filters.map(filter => texts.of(filter).filterNot(_.mayFail).map(filter -> _.text)).flatten
    val reply =
      ask(table, needed(table, projects ++ filters.filterNot(one => conditions.exists(_._1 eq one))), conditions)
    val passed =
      reply.toOption.map(_.get("accepted").elements().asScala.map(one => conditions(one.asInt)._1).toSeq).getOrElse(Nil)
    val left = filters.filterNot(filter => passed.exists(_ eq filter))
    val columns = needed(table, projects ++ left)
    for {
      source <- reads.scan(
        table, reply.map(_.get("query")).getOrElse(withColumns(reads.rows(table), stored(table, columns))),
        reply.fold(refusal => PlanSummary(refusal.toString, None), PlanSummary.of)
          .and(note), Some(ReadRows(table, passed)))
      found = columns.flatMap(column => source.output.find(_.name == column.name))
      _ <- Either.cond(found.map(_.dataType) == columns.map(_.dataType), found, Refusal.ofTypes)
    } yield {
      val renamed: LogicalPlan = Project(
        columns.zip(found).map { case (column, read) => Alias(read, column.name)(column.exprId, column.qualifier) },
        source)
      val filtered = left.reduceOption(And).map(Filter(_, renamed)).getOrElse(renamed)
      Project(projects, filtered)
    }
  }

  /** The first rows of a scan, in an order of columns if one is given, planted into the plan. */
  def first(
      projects: Seq[NamedExpression], where: Seq[Expression], table: Table, order: Seq[SortOrder], limit: Int)
      : Either[Refusal, LogicalPlan] = {
    val filters = NullRejection.withoutImplied(where)
    val aliases = AttributeMap(projects.collect { case alias: Alias => alias.toAttribute -> alias.child })
    val terms =
      order.map(one => term(one, one.child.transform { case column: Attribute => aliases.getOrElse(column, column) }))
    val conditions = filters.map(filter => texts.of(filter).filterNot(_.mayFail).map(filter -> _.text))
    if (!settings.isLocalEnabled || limit > settings.localRows) return Left(Refusal("no answers are planted"))
    if ((terms ++ conditions).exists(_.isEmpty)) return Left(Refusal("a condition or an order is left to Spark"))
    val columns = needed(table, projects)
    val query = reads.rows(table).put("limit", limit)
    if (terms.nonEmpty) terms.flatten.foreach(query.withArray[ArrayNode]("order_by").add)
    for {
      reply <- asked(query, table, columns, conditions.flatten)
      _ <- Either.cond(reply.content.get("answered").asBoolean, reply, Refusal("too much to read while planning"))
    } yield {
      Project(projects, ProjsegAnswer.of(columns, reply, s"the first $limit, "))
    }
  }

  /** A term of an order, if its values are ordered alike everywhere: floating ones have two zeros. */
  private def term(order: SortOrder, over: Expression): Option[String] = over match {
    case column: AttributeReference if Scans.isOrdered(column.dataType) =>
      texts.of(column).map(one => s"${one.text} ${order.direction.sql} ${order.nullOrdering.sql}")
    case _ => None
  }

  /** The columns of a table that expressions refer to, in its order; at least one. */
  private def needed(table: Table, expressions: Seq[Expression]): Seq[Attribute] = {
    val references = AttributeSet(expressions.flatMap(_.references))
    table.relation.output.filter(references.contains) match {
      case Nil => table.relation.output.take(1)
      case some => some
    }
  }

  /** What the engine says of a scan of columns, and of those conditions that it can apply. */
  private def ask(table: Table, columns: Seq[Attribute], conditions: Seq[(Expression, String)])
      : Either[Refusal, JsonNode] = asked(reads.rows(table), table, columns, conditions).map(_.content)

  private def asked(query: ObjectNode, table: Table, columns: Seq[Attribute], conditions: Seq[(Expression, String)])
      : Either[Refusal, Reply] = {
    val request = requests.of("scan", table)
    request.set[ObjectNode]("query", query)
    request.put("max_bytes", settings.localBytes).put("max_rows", settings.localRows)
    val asked = request.putArray("columns")
    stored(table, columns).foreach(column => asked.add(column.name))
    val given = request.putArray("conditions")
    conditions.foreach { case (condition, text) =>
      val names = given.addObject().put("text", text).putArray("columns")
      condition.references.foreach(column => names.add(column.name))
    }
    requests.reply(request).flatMap { reply =>
      if (table.isAsStored(reply)) Right(reply) else Left(Refusal.ofTypes)
    }
  }

  private def stored(table: Table, columns: Seq[Attribute]): Seq[Attribute] =
    columns.filter(column => table.stored.exists(_.exprId == column.exprId))

  private def withColumns(query: ObjectNode, columns: Seq[Attribute]): ObjectNode = {
    val names = query.putArray("columns")
    columns.foreach(column => names.add(SqlText.quoted(column.name)))
    query
  }
}

private object Scans {
  def isOrdered(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | TimestampType => true
    case TimestampNTZType | _: DecimalType => true
    case other => other == StringType // with the default collation
  }
}
