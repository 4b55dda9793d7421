package org.apache.spark.sql.projseg

import java.util.Locale

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
        ProjectionHints.options(name, parameters).flatMap(given(_, child)).getOrElse(hint)
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
}

object ProjectionHints {
  private val prefix = "projseg.hint."

  /** Names of options that hints give to tables, in lower case. */
  val names: Set[String] = Set("useprojection", "forceprojections", "noprojections").map(prefix + _)

  private def options(name: String, parameters: Seq[Expression]): Option[Map[String, String]] =
    (name.toUpperCase(Locale.ROOT), parameters) match {
      case ("NO_PROJECTIONS", Seq()) => Some(Map(prefix + "noprojections" -> "true"))
      case ("FORCE_PROJECTIONS", Seq()) => Some(Map(prefix + "forceprojections" -> "true"))
      case ("USE_PROJECTION", Seq(UnresolvedAttribute(parts))) =>
        Some(Map(prefix + "useprojection" -> parts.mkString(".")))
      case ("USE_PROJECTION", Seq(Literal(projection, _))) if projection != null =>
        Some(Map(prefix + "useprojection" -> projection.toString))
      case _ => None
    }

  /** A session's query context, where hints in a table's options do not say otherwise. */
  def context(session: Map[String, String], options: Map[String, String]): Map[String, String] = {
    val hinted = options.collect { case (name, value) if names.contains(name) => name.stripPrefix(prefix) -> value }
    if (hinted.isEmpty) session else session.filter { case (name, _) => name == "excludeProjections" } ++ hinted
  }
}
