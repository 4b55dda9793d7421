package org.apache.spark.sql.projseg

import org.apache.spark.sql.projseg.Statements.{optional, Form, Names}

/** Statements about indexes, in Spark's grammar, which its parser refuses of most tables, and in CarbonData's. */
object StatementsOfIndexes {
  private val create: Form = (at, names) => for {
    _ <- at.words("CREATE INDEX")
    isLenient = at.has("IF NOT EXISTS")
    index <- at.name
    _ <- at.words("ON")
    _ = at.has("TABLE")
    table <- at.name
    kind <- optional(at, "USING")(at.name)
    columns <- at.list
    provider <- optional(at, "AS")(at.string)
    if kind.isEmpty || provider.isEmpty
    isDeferred = at.has("WITH DEFERRED REFRESH")
    options <- optional(at, "OPTIONS", "PROPERTIES")(at.properties)
    _ <- at.end
  } yield created(names, table, index, columns, kind.orElse(provider), options, isLenient, isDeferred)

  /** CarbonData's data maps that are no views name their columns in properties. */
  private val createDataMap: Form = (at, names) => for {
    _ <- at.words("CREATE DATAMAP")
    isLenient = at.has("IF NOT EXISTS")
    index <- at.name
    _ <- at.words("ON TABLE")
    table <- at.name
    provider <- optional(at, "USING", "AS")(at.string)
    if provider.isDefined
    isDeferred = at.has("WITH DEFERRED REBUILD")
    options <- optional(at, "DMPROPERTIES", "PROPERTIES")(at.properties)
    _ <- at.end
  } yield created(names, table, index, Nil, provider, options, isLenient, isDeferred)

  val forms: Seq[(String, Form)] = Seq("CREATE" -> create, "CREATE" -> createDataMap)

  private def created(
      names: Names, table: String, index: String, columns: Seq[String], kind: Option[String],
      options: Option[Map[String, String]], isLenient: Boolean, isDeferred: Boolean): Statement = {
    val arguments = Map(
      "name" -> names.single(index), "columns" -> columns, "kind" -> kind.getOrElse("bloom"),
      "options" -> options.getOrElse(Map.empty), "lenient" -> isLenient, "deferred" -> isDeferred)
    Statement("create_index", names.table(table), arguments)
  }
}
