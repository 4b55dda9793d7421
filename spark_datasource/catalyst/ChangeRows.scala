package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.analysis.{EliminateSubqueryAliases, ResolvedTable}
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, Expression, Literal}
import org.apache.spark.sql.catalyst.optimizer.{ComputeCurrentTime, ConstantFolding, ReplaceExpressions}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** DELETE FROM, UPDATE, MERGE INTO and TRUNCATE TABLE of projseg tables, each one commit of the engine. */
class ChangeRows extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    // What is wrong with a statement is Spark's to say; it has cast values to their columns' types.
    if (!new Settings(conf).isEnabled || !plan.resolved) plan
    else plan match {
      case DeleteFromTable(Target(location), _) =>
        val DeleteFromTable(_, condition) = folded(plan)
        changed("delete", location, where(condition))
      case UpdateTable(Target(location), _, _) =>
        val UpdateTable(_, assignments, condition) = folded(plan)
        val values = ChangeRows.assigned(assignments).map { case (column, value) => column -> text(value) }
        changed("update", location, condition.fold(Map.empty[String, Any])(where) + ("values" -> values))
      case merge @ MergeIntoTable(Target(location), _, _, _, _, _, _) => MergeByKeys(merge, location)
      case TruncateTable(found: ResolvedTable) if Table.isProjseg(found.table) =>
        val parts = (found.catalog.name +: found.identifier.namespace.toSeq) :+ found.identifier.name
        Statement("truncate", ByName(parts), Map.empty, ChangeRows.returned)
      case _ => plan
    }

  private def changed(operation: String, location: String, arguments: Map[String, Any]): LogicalPlan =
    Statement(operation, At(location), arguments + ("timezone" -> conf.sessionLocalTimeZone), ChangeRows.returned)

  /** The statement with what is constant in it as literals, as the optimizer would write it. */
  private def folded(plan: LogicalPlan): LogicalPlan = AnalysisHelper.allowInvokingTransformsInAnalyzer {
    Seq(ReplaceExpressions, ComputeCurrentTime, ConstantFolding).foldLeft(plan)((left, rule) => rule(left))
  }

  private def where(condition: Expression): Map[String, Any] = condition match {
    case Literal.TrueLiteral => Map.empty
    case Literal(null, _) => Map("filter" -> "FALSE")
    case other => Map("filter" -> text(other))
  }

  private def text(expression: Expression): String =
    new SqlTexts(conf.sessionLocalTimeZone).of(expression).map(_.text).getOrElse(throw Statement.failed(
      s"projseg has no exact meaning of ${expression.sql} in a statement that changes rows; write it with " +
        "columns, literals and the functions of docs/functions.md, without subqueries"))
}

object ChangeRows {
  /** What these statements return, as Delta's do. */
  val returned = "num_affected_rows BIGINT"

  /** The values of assignments by their columns' names. */
  def assigned(assignments: Seq[Assignment]): Map[String, Expression] = {
    val values = assignments.map {
      case Assignment(column: AttributeReference, value) => column.name -> value
      case other => throw Statement.failed(s"${other.key.sql} is part of a column and cannot be set; set the column")
    }
    values.groupBy(_._1).collectFirst { case (column, several) if several.size > 1 =>
      throw Statement.failed(s"column $column is set twice; set it once")
    }
    values.toMap
  }
}

/** The location of a table that is named as it is, with no version and no other options. */
private object Target {
  def unapply(plan: LogicalPlan): Option[String] = EliminateSubqueryAliases(plan) match {
    case relation: DataSourceV2Relation =>
      Table.unapply(relation).filter(one => one.version.isEmpty && one.storage.isEmpty).map(_.location)
    case _ => None
  }
}
