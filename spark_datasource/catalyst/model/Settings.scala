package org.apache.spark.sql.projseg

import java.util.Locale
import java.util.concurrent.TimeUnit

import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.network.util.ByteUnit
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.SQLConf.buildConf

/** What a session says about projseg; every key has a default. */
class Settings(conf: SQLConf) {
  val isEnabled: Boolean = conf.getConf(Settings.enabled)
  lazy val isLocalEnabled: Boolean = conf.getConf(Settings.localEnabled)
  lazy val localBytes: Long = conf.getConf(Settings.localBytes)
  /** Most stored bytes that the engine writes anew by itself, where there are several segments to write. */
  lazy val smallBytes: Long = if (isLocalEnabled) localBytes else 0L
  lazy val localRows: Long = conf.getConf(Settings.localRows)
  lazy val rebalances: Boolean = conf.getConf(Settings.rebalance)
  lazy val localMillis: Long = conf.getConf(Settings.localTimeout)
  lazy val approximateDistinct: Boolean = conf.getConf(Settings.approximateDistinct)
  lazy val logQueries: Int = conf.getConf(Settings.logQueries)
  lazy val logPath: Option[String] = conf.getConf(Settings.logPath)
  lazy val logLiterals: Boolean = conf.getConf(Settings.logLiterals)
  lazy val python: String =
    conf.getConf(Settings.python).orElse(sys.env.get("PYSPARK_PYTHON")).getOrElse("python3")

  /** The session's query context, under its own names. */
  lazy val context: Map[String, String] =
    Settings.context.flatMap { case (name, entry) => conf.getConf(entry).map(name -> _.toString) } ++
      Option.when(!conf.getConf(Settings.viewsEnabled))("noViews" -> "true")
}

/** Spark knows the settings: it refuses wrong values when they are set, and `SET -v` lists them. */
object Settings {
  val enabled: ConfigEntry[Boolean] =
    named("enabled", "Answer queries over projseg tables from projections; their names, paths and versions are known without it.").booleanConf.createWithDefault(true)
  val localEnabled: ConfigEntry[Boolean] =
    named("local.enabled", "Answer small queries while they are planned.").booleanConf.createWithDefault(true)
  val localBytes: ConfigEntry[Long] =
    named("local.maxBytes",
        "Stored bytes that an answer may read, and bytes that it may have, while its query is planned; and " +
      "of segments that statements write anew without tasks.")
      .bytesConf(ByteUnit.BYTE).createWithDefault(64L << 20)
  val localRows: ConfigEntry[Long] =
    named("local.maxRows", "Rows that an answer may have while its query is planned.")
      .longConf.checkValue(_ >= 0, "must not be negative").createWithDefault(500000L)
  val localTimeout: ConfigEntry[Long] =
    named("local.timeout", "Time that the engine may take for a request while a statement is planned, and for its " +
      "part of one that changes rows.")
      .timeConf(TimeUnit.MILLISECONDS).checkValue(_ > 0, "must be positive").createWithDefault(60000L)
  val rebalance: ConfigEntry[Boolean] =
    named("rebalance", "Put the rows of a chunk of time together before they are written.")
      .booleanConf.createWithDefault(true)
  val approximateDistinct: ConfigEntry[Boolean] =
    named("approximateDistinct", "Answer approx_count_distinct, and Spark's sketch functions, from stored sketches.")
      .booleanConf.createWithDefault(true)
  val logQueries: ConfigEntry[Int] =
    named("queryLog.maxQueries", "Queries that the query log keeps.")
      .intConf.checkValue(_ >= 0, "must not be negative").createWithDefault(1000)
  val logLiterals: ConfigEntry[Boolean] =
    named("queryLog.literals", "Keep literals of queries in the query log.").booleanConf.createWithDefault(false)
  val logPath: ConfigEntry[Option[String]] =
    named("queryLog.path",
        "The folder in which the engine writes records of queries, as PROJSEG_QUERY_LOG does elsewhere.")
      .stringConf.createOptional
  val python: ConfigEntry[Option[String]] =
    named("python", "The Python that runs the engine.").stringConf.createOptional

  val viewsEnabled: ConfigEntry[Boolean] =
    named("views.enabled", "Answer groups from the views of a table.").booleanConf.createWithDefault(true)

  /** The query context, by its names. */
  val context: Map[String, ConfigEntry[_ <: Option[Any]]] = (for {
    steering <- SteeringOption.all
    setting <- steering.setting
    entry = named(setting, steering.meaning)
  } yield steering.key -> (if (steering.isFlag) entry.booleanConf.createOptional
  else steering.pattern.foldLeft(entry.stringConf) {
    case (text, (pattern, expected)) =>
      text.checkValue(_.trim.toLowerCase(Locale.ROOT).matches(pattern), s"must be $expected")
  }.createOptional)).toMap

  private def named(name: String, meaning: String) = buildConf(s"spark.projseg.$name").doc(meaning)

  /** Makes Spark know the settings. */
  def register(): Unit = ()
}
