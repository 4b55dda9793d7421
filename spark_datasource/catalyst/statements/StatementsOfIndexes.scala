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

  private val drop: Form = (at, names) => for {
    _ <- at.words("DROP INDEX")
    isLenient = at.has("IF EXISTS")
    (index, table) <- indexOfTable(at)
    _ <- at.end
  } yield Statement(
    "drop_index", names.table(table), Map("name" -> names.single(index), "lenient" -> isLenient), "version BIGINT")

  private val show: Form = (at, names) => for {
    _ <- at.words("SHOW INDEXES")
    table <- optional(at, "FROM", "ON", "IN") { at.has("TABLE"); at.name }
    _ <- at.end
  } yield table.map(one => Statement("indexes", names.table(one), Map.empty, indexes))
    .getOrElse(Statement("indexes", EveryTable(), Map.empty, "table STRING, " + indexes))

  private val describe: Form = (at, names) => for {
    _ <- at.words("DESCRIBE INDEX").orElse(at.words("DESC INDEX"))
    (index, table) <- indexOfTable(at)
    _ <- at.end
  } yield Statement(
    "index", names.table(table), Map("name" -> names.single(index)), "property STRING, value STRING")

  private val materialize: Form = (at, names) => for {
    _ <- at.words("ALTER TABLE")
    table <- at.name
    _ <- at.words("MATERIALIZE INDEX")
    index <- at.name
    interval <- optional(at, "FOR INTERVAL")(at.string)
    _ <- at.end
  } yield materialized(names, table, index, interval)

  private val refresh: Form = (at, names) => for {
    _ <- at.words("REFRESH INDEX")
    (index, table) <- indexOfTable(at)
    _ <- at.end
  } yield materialized(names, table, index, None)

  val forms: Seq[(String, Form)] = Seq(
    "CREATE" -> create, "CREATE" -> createDataMap, "DROP" -> drop, "SHOW" -> show, "DESCRIBE" -> describe,
    "DESC" -> describe, "ALTER" -> materialize, "REFRESH" -> refresh)

  private def indexOfTable(at: Cursor): Option[(String, String)] = for {
    index <- at.name
    _ <- at.words("ON")
    _ = at.has("TABLE")
    table <- at.name
  } yield (index, table)

  private def created(
      names: Names, table: String, index: String, columns: Seq[String], kind: Option[String],
      options: Option[Map[String, String]], isLenient: Boolean, isDeferred: Boolean): Statement = {
    val arguments = Map(
      "name" -> names.single(index), "columns" -> columns, "kind" -> kind.getOrElse("bloom"),
      "options" -> options.getOrElse(Map.empty), "lenient" -> isLenient, "deferred" -> isDeferred)
    Statement("create_index", names.table(table), arguments, "version BIGINT, filters BIGINT, ignored STRING")
  }

  private def materialized(names: Names, table: String, index: String, interval: Option[String]): Statement = {
    val arguments = Map("name" -> names.single(index)) ++ interval.map("interval" -> _)
    Statement("materialize_index", names.table(table), arguments, "version BIGINT, filters BIGINT")
  }

  private val indexes = SharedLists.shown("indexes")
}
