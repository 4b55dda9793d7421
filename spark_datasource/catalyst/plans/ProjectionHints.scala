package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan, UnresolvedHint}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Gives the hints of a query block to the projseg tables in it and below.
 *
 * A hint that finds none, or is not written as these are, stays, and Spark warns of it as it does
 * of unknown ones.
 */
class ProjectionHints extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!new Settings(conf).isEnabled) plan
    else plan.resolveOperatorsUp {
      case hint @ UnresolvedHint(name, parameters, child) =>
        options(name, parameters).flatMap(given(_, child)).getOrElse(hint)
    }

  /** The plan with the options in all its tables, or None if it has none. Hints further below come first. */
  private def given(options: Map[String, String], plan: LogicalPlan): Option[LogicalPlan] = {
    var isFound = false
    val changed = AnalysisHelper.allowInvokingTransformsInAnalyzer {
      plan.transformDownWithSubqueries {
        case relation: DataSourceV2Relation if Table.isProjseg(relation) =>
          isFound = true
          Table.withOptions(relation, options ++ Table.optionsOf(relation))
      }
    }
    if (isFound) Some(changed) else None
  }

  private def options(name: String, parameters: Seq[Expression]): Option[Map[String, String]] = {
    def hinted(isFlag: Boolean) =
      SteeringOption.all.find(one => one.isFlag == isFlag && one.hint.exists(_.equalsIgnoreCase(name)))
    val found = parameters match {
      case Seq() => hinted(isFlag = true).map(_ -> "true")
      case Seq(UnresolvedAttribute(parts)) => hinted(isFlag = false).map(_ -> parts.mkString("."))
      case Seq(Literal(source, _)) if source != null => hinted(isFlag = false).map(_ -> source.toString)
      case _ => None
    }
    found.map { case (steering, value) => Map(HintedContext.prefix + steering.option -> value) }
  }
}
