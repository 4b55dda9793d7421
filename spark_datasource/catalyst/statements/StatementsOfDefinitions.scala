package org.apache.spark.sql.projseg

import Statements.Form

/** Statements about definitions of a catalog that Spark has no words for. */
private[projseg] object StatementsOfDefinitions {
  private def hidden(verb: String, hides: Boolean): Form = (at, names) => for {
    _ <- at.words("ALTER TABLE")
    table <- at.name
    _ <- at.words(s"$verb COLUMNS").orElse(at.words(s"$verb COLUMN"))
    columns <- at.list.orElse(at.name.map(Seq(_)))
    _ <- at.end
  } yield Statement(
    "defined_hide", names.definition(table), Map("hides" -> hides, "columns" -> columns.map(names.single)))

  val forms: Seq[(String, Form)] =
    Seq("ALTER" -> hidden("HIDE", hides = true), "ALTER" -> hidden("UNHIDE", hides = false))
}
