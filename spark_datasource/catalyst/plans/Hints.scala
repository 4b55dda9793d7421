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
  private val staleness = "maxstaleness"

  /** What can be said of a query's sources, by the noun it ends in; `exclude...` adds to what else is said. */
  private val steering: Map[String, Set[String]] = Map(
    "projections" -> Set("useprojection", "forceprojections", "noprojections"),
    "views" -> Set("useview", "forceviews", "noviews", "excludeviews"),
    "staleness" -> Set(staleness),
    "indexes" -> Set("noindexes", "excludeindexes"))

  /** Names of options that hints give to tables, and of a read's own about views and indexes; in lower case. */
  val names: Set[String] = steering.values.flatten.map(prefix + _).toSet ++ steering("views") ++ steering("indexes") + staleness

  private val flags: Map[String, String] = Map(
    "NO_PROJECTIONS" -> "noprojections", "FORCE_PROJECTIONS" -> "forceprojections", "NO_VIEWS" -> "noviews",
    "FORCE_VIEWS" -> "forceviews", "NO_INDEXES" -> "noindexes")
  private val named: Map[String, String] = Map("USE_PROJECTION" -> "useprojection", "USE_VIEW" -> "useview", "MAX_STALENESS" -> staleness)

  private def options(name: String, parameters: Seq[Expression]): Option[Map[String, String]] = {
    val upper = name.toUpperCase(Locale.ROOT)
    val found = parameters match {
      case Seq() => flags.get(upper).map(_ -> "true")
      case Seq(UnresolvedAttribute(parts)) => named.get(upper).map(_ -> parts.mkString("."))
      case Seq(Literal(source, _)) if source != null => named.get(upper).map(_ -> source.toString)
      case _ => None
    }
    found.map { case (key, value) => Map(prefix + key -> value) }
  }

  /** A session's query context, where hints in a table's options, or its own, do not say otherwise. */
  def context(session: Map[String, String], options: Map[String, String]): Map[String, String] = {
    val hinted = options.collect { case (name, value) if names.contains(name) => name.stripPrefix(prefix) -> value }
    def isOverridden(name: String): Boolean = steering.values.exists { of =>
      of.contains(name.toLowerCase(Locale.ROOT)) && hinted.keys.exists(of.contains)
    }
    // A view that is named answers, whatever the session says of projections.
    def isOfOthers(name: String): Boolean = hinted.contains("useview") && steering("projections").contains(name.toLowerCase(Locale.ROOT))
    session.filterNot { case (name, _) => isOverridden(name) && !name.startsWith("exclude") || isOfOthers(name) } ++ hinted
  }

  /** A context of which all answers are of the present. */
  def ofPresent(context: Map[String, String]): Map[String, String] = context.filterNot(_._1.equalsIgnoreCase(staleness))

  /** What of a query's context concerns its rows too, and not only groups. */
  def ofRows(context: Map[String, String]): Map[String, String] =
    context.filter { case (name, _) => steering("indexes").contains(name.toLowerCase(Locale.ROOT)) }
}
