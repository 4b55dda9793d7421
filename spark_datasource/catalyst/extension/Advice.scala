package org.apache.spark.sql.projseg

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}

/** `SELECT * FROM projseg_advice('t'[, '10%'])`: what a table should store; a statement in FROM. */
object Advice {
  private def statement(arguments: Seq[Expression]): LogicalPlan = {
    val texts = arguments.filter(_.foldable).map(one => Option(one.eval()).map(_.toString))
    if (texts.size != arguments.size || texts.size < 1 || texts.size > 2 || texts.contains(None)) throw ProjsegError.of(
      "PROJSEG_BAD_ARGUMENT",
      "projseg_advice takes the name of a table and a budget, as constants: projseg_advice('t', '10%')")
    val session = SparkSession.active.asInstanceOf[ClassicSession]
    val parts = session.sessionState.sqlParser.parseMultipartIdentifier(texts.head.get)
    val log = new Settings(session.sessionState.conf).logPath match {
      case Some(folder) => "folder" -> folder
      case None => "entries" -> QueryLog.requests()
    }
    Statement("advice", NamedTable(parts), Map("budget" -> texts.lift(1).flatten.getOrElse("10%"), log))
  }

  val function: (FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan) = (
    FunctionIdentifier("projseg_advice"),
    new ExpressionInfo(getClass.getName, "projseg_advice"),
    statement)
}
