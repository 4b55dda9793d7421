package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import org.apache.spark.sql.catalyst.expressions.{Alias, And, Attribute, AttributeMap, AttributeReference}
import org.apache.spark.sql.catalyst.expressions.{AttributeSet, Expression, NamedExpression, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.types._

/** Reads of rows, of which only the columns and rows that are needed are read. */
class Scans(settings: Settings, reads: PlannedReads, requests: PlanRequests, texts: SqlTexts) {

  /**
   * A scan below projections and filters; `note` says why no more than its rows are asked. Rows that are little work
   * are planted if `mayPlant`.
   */
  def scanned(
      projects: Seq[NamedExpression], where: Seq[Expression], table: Table, note: Option[Refusal], mayPlant: Boolean)
      : Either[Refusal, LogicalPlan] = {
    val scan = new RowScan(projects, where, table, mayPlant)
    val reply = requests.reply(scan.request).flatMap(asStored(table, _))
    reply.toOption.flatMap(scan.planted(_, note)).map(Right(_)).getOrElse(scan.ofTasks(reply.map(_.content), note))
  }

  /** A scan of which the rows are little work, planted. */
  def little(projects: Seq[NamedExpression], where: Seq[Expression], table: Table, note: Option[Refusal])
      : Option[LogicalPlan] = {
    val scan = new RowScan(projects, where, table, mayPlant = true)
    for {
      foreseen <- requests.foreseen(scan.request).toOption
      if foreseen.content.get("answered").asBoolean
      reply <- requests.reply(scan.request).flatMap(asStored(table, _)).toOption
      rows <- scan.planted(reply, note)
    } yield rows
  }

  private class RowScan(projects: Seq[NamedExpression], where: Seq[Expression], table: Table, mayPlant: Boolean) {
    private val filters = NullRejection.withoutImplied(where)
    private val conditions = filters.flatMap(filter => texts.of(filter).filterNot(_.mayFail).map(filter -> _.text))

    val request: ObjectNode = Scans.this.request(
      reads.rows(table), table, needed(table, projects ++ filters.filterNot(one => conditions.exists(_._1 eq one))),
      conditions).put("plants", mayPlant && settings.isLocalEnabled && !table.isNumbered && table.parallelism.isEmpty)

    private def passed(reply: JsonNode): Seq[Expression] =
      reply.get("accepted").elements().asScala.map(one => conditions(one.asInt)._1).toSeq

    private def over(columns: LogicalPlan, left: Seq[Expression]): LogicalPlan =
      Project(projects, left.reduceOption(And).map(Filter(_, columns)).getOrElse(columns))

    def planted(reply: Reply, note: Option[Refusal]): Option[LogicalPlan] = {
      val conditions = passed(reply.content)
      val left = filters.filterNot(filter => conditions.exists(_ eq filter))
      val columns = needed(table, projects ++ left)
      val names = reply.content.get("query").get("columns").elements().asScala.map(_.asText).toSeq
      if (!reply.content.get("answered").asBoolean || names != columns.map(one => SqlText.quoted(one.name))) None
      else {
        val answer = ProjsegAnswer.of(columns, reply, "", note).copy(read = Some(ReadRows(table, conditions)))
        // Spark knows of an empty local relation that what is joined to it has no rows either.
        Some(over(if (answer.rows.size == 0) LocalRelation(columns) else answer, left))
      }
    }

    def ofTasks(reply: Either[Refusal, JsonNode], note: Option[Refusal]): Either[Refusal, LogicalPlan] = {
      val conditions = reply.fold(_ => Nil, passed)
      val left = filters.filterNot(filter => conditions.exists(_ eq filter))
      val columns = needed(table, projects ++ left)
      for {
        source <- reads.scan(
          table, reply.map(_.get("query")).getOrElse(withColumns(reads.rows(table), stored(table, columns))),
          reply.fold(refusal => PlanSummary(refusal.toString, None), PlanSummary.of)
            .and(note), Some(ReadRows(table, conditions)))
        found = columns.flatMap(column => source.output.find(_.name == column.name))
        _ <- Either.cond(found.map(_.dataType) == columns.map(_.dataType), found, Refusal.ofTypes)
      } yield over(Project(
        columns.zip(found).map { case (column, read) => Alias(read, column.name)(column.exprId, column.qualifier) },
        source), left)
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
      reply <- requests.reply(request(query, table, columns, conditions.flatten)).flatMap(asStored(table, _))
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

  /** A request for a scan of columns with those of the conditions that the engine can apply. */
  private def request(
      query: ObjectNode, table: Table, columns: Seq[Attribute], conditions: Seq[(Expression, String)]): ObjectNode = {
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
    request
  }

  private def asStored(table: Table, reply: Reply): Either[Refusal, Reply] =
    Either.cond(table.isAsStored(reply), reply, Refusal.ofTypes)

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
