package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.catalyst.expressions.{Alias, And, Attribute, AttributeSet, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}

/** Reads of rows, of which only the columns and rows that are needed are read. */
class Scans(reads: Reads, requests: Requests, texts: SqlTexts) {

  /** A scan below projections and filters; `note` says why no more than its rows are asked. */
  def scanned(
      projects: Seq[NamedExpression], filters: Seq[Expression], table: Table, note: Option[Refusal])
      : Either[Refusal, LogicalPlan] = {
    val conditions = filters.map(filter => texts.of(filter).filterNot(_.mayFail).map(filter -> _.text)).flatten
    val reply = ask(table, needed(table, projects ++ filters.filterNot(one => conditions.exists(_._1 eq one))), conditions)
    val passed = reply.toOption.map(_.get("accepted").elements().asScala.map(one => conditions(one.asInt)._1).toSeq).getOrElse(Nil)
    val left = filters.filterNot(filter => passed.exists(_ eq filter))
    val columns = needed(table, projects ++ left)
    // The source's own reader keeps a version of its own: the one that the analysis named is read.
    if (passed.isEmpty && columns.size == table.relation.output.size && !table.isPinned)
      return Left(Refusal("all columns and rows are read"))
    for {
      loaded <- reads.load(table, reply.map(_.get("query")).getOrElse(withColumns(reads.rows(), columns)))
      told = reply.fold(refusal => Told(refusal.toString, None), Told.of).and(note)
      source = reads.planned(loaded, told)
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
      : Either[Refusal, JsonNode] = {
    val request = requests.of("scan", table)
    request.set[ObjectNode]("query", reads.rows())
    val asked = request.putArray("columns")
    columns.foreach(column => asked.add(column.name))
    val given = request.putArray("conditions")
    conditions.foreach { case (condition, text) =>
      val names = given.addObject().put("text", text).putArray("columns")
      condition.references.foreach(column => names.add(column.name))
    }
    requests.reply(request).flatMap { reply =>
      if (table.isAsStored(reply)) Right(reply.content) else Left(Refusal.ofTypes)
    }
  }

  private def withColumns(query: ObjectNode, columns: Seq[Attribute]): ObjectNode = {
    val names = query.putArray("columns")
    columns.foreach(column => names.add("`" + column.name.replace("`", "``") + "`"))
    query
  }
}
