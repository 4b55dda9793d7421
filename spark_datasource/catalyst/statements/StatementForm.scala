package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.projseg.Statements.Names

/** A statement of `spark_datasource/statement_list.py`, which says what stands in its form. */
class StatementForm(operation: String, parts: Seq[FormPart]) {
  /** The words of which one comes first. */
  val openings: Seq[String] = parts.head match {
    case FormWords(phrases) => phrases.map(_.takeWhile(_ != ' '))
    case _ => Nil
  }

  def read(at: Cursor, names: Names): Option[Statement] = for {
    found <- StatementForm.read(parts, at)
    _ <- at.end
  } yield statement(found, names)

  /** A table, definition or view is what the statement is about, and all else an argument. */
  private def statement(found: Map[String, Any], names: Names): Statement = {
    def written(name: String): Option[String] = found.get(name).map(_.toString)
    val view = written("view")
    val subject = written("table").map(names.table).orElse(written("definition").map(names.definition))
      .orElse(view.map(names.view)).getOrElse(EveryTable())
    val given = found -- Seq("table", "definition", "view") ++ view.map("name" -> names.last(_)) ++
      written("name").map("name" -> names.single(_))
    Statement(operation, subject, given)
  }
}

object StatementForm {
  private val part = raw"\[(?:(\w+): )?((?:[^\[\]]|\[[^\[\]]*\])*)\]|<(\w+)>|'(\w+)'|#(\w+)|([A-Z|]+)".r

  val all: Seq[StatementForm] = SharedLists.at("statements").elements.asScala.map { said =>
    new StatementForm(said.get("operation").asText, partsOf(said.get("form").asText))
  }.toSeq

  private def partsOf(form: String): Seq[FormPart] = joined(part.findAllMatchIn(form).map { found =>
    def group(number: Int): Option[String] = Option(found.group(number))
    group(2).map(inside => OptionalParts(group(1), partsOf(inside)))
      .orElse(group(3).map(name =>
        FormValue(name, if (name == "noun") nounOf(_).map("kind" -> _) else _.name.map(name -> _))))
      .orElse(group(4).map(name => FormValue(name, _.string.map(name -> _))))
      .orElse(group(5).map(name => FormValue(name, _.number.map(name -> _))))
      .getOrElse(FormWords(group(6).get.split('|').toSeq))
  }.toSeq)

  /** Words in a row as one part, which is there or is not. */
  private def joined(parts: Seq[FormPart]): Seq[FormPart] = parts.foldLeft(Vector[FormPart]()) {
    case (before :+ FormWords(firsts), FormWords(seconds)) =>
      before :+ FormWords(for (first <- firsts; second <- seconds) yield s"$first $second")
    case (before, next) => before :+ next
  }

  /** What a view is called, as CarbonData has data maps. */
  def nounOf(at: Cursor): Option[String] =
    Seq("MATERIALIZED VIEWS", "MATERIALIZED VIEW", "DATAMAPS", "DATAMAP").find(at.has).map(_.stripSuffix("S"))

  /** The values of parts that come next, by name; None where something else does. */
  private def read(parts: Seq[FormPart], at: Cursor): Option[Map[String, Any]] =
    parts.foldLeft(Option(Map[String, Any]())) { (found, next) => found.flatMap(known => next match {
      case FormWords(phrases) => Option.when(phrases.exists(at.has))(known)
      case FormValue(_, value) => value(at).map(known + _)
      case OptionalParts(flag, FormWords(phrases) +: others) =>
        if (phrases.exists(at.has)) read(others, at).map(known ++ _ ++ flag.map(_ -> true))
        else Some(known ++ flag.map(_ -> false))
      case other => throw new IllegalStateException(s"a form may leave out what begins with words, and not $other")
    })}
}

sealed trait FormPart
case class FormWords(phrases: Seq[String]) extends FormPart
case class FormValue(name: String, read: Cursor => Option[(String, Any)]) extends FormPart
case class OptionalParts(flag: Option[String], parts: Seq[FormPart]) extends FormPart
