package org.apache.spark.sql.projseg

import java.util.Locale

/** A query's context, of what a session says, and hints and the options of a read in its place. */
object HintedContext {
  val prefix: String = SharedLists.at("hintPrefix").asText
  private val steering: Map[String, Set[SteeringOption]] =
    SteeringOption.all.filter(_.about.nonEmpty).toSet.groupBy(_.about)
  private val staleness = names("staleness")

  private def names(about: String): Set[String] = steering(about).map(_.option)

  /** Names of options that hints give to tables, and of a read's own about others than projections; in lower case. */
  val options: Set[String] = steering.values.flatten.map(prefix + _.option).toSet ++
    steering.keySet.filterNot(_ == "projections").flatMap(names)

  /** A session's query context, where hints in a table's options, or its own, do not say otherwise. */
  def context(session: Map[String, String], given: Map[String, String]): Map[String, String] = {
    val hinted = given.collect { case (name, value) if options.contains(name) => name.stripPrefix(prefix) -> value }
    def isOverridden(name: String): Boolean = steering.values.exists { about =>
      about.exists(one => one.option == name.toLowerCase(Locale.ROOT) && !one.adds) &&
        about.exists(one => hinted.contains(one.option))
    }
    // A view that is named answers, whatever the session says of projections.
    def isOfOthers(name: String): Boolean = hinted.contains("useview") &&
      steering("projections").exists(one => one.option == name.toLowerCase(Locale.ROOT) && !one.adds)
    session.filterNot { case (name, _) => isOverridden(name) || isOfOthers(name) } ++ hinted
  }

  /** A context of which all answers are of the present. */
  def ofPresent(context: Map[String, String]): Map[String, String] = without(context, staleness)

  /** What of a query's context concerns its rows too, and not only groups. */
  def ofRows(context: Map[String, String]): Map[String, String] =
    context.filter { case (name, _) => names("indexes").contains(name.toLowerCase(Locale.ROOT)) }

  private def without(context: Map[String, String], options: Set[String]): Map[String, String] =
    context.filterNot { case (name, _) => options.contains(name.toLowerCase(Locale.ROOT)) }
}
