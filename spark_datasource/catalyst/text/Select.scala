package org.apache.spark.sql.projseg

import java.time.temporal.ChronoUnit
import java.util.Locale

import scala.util.matching.Regex

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo, ImplicitCastInputTypes, Literal}
import org.apache.spark.sql.catalyst.expressions.{TimeZoneAwareExpression, TruncTimestamp, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.types.{AbstractDataType, DataType, DateType, TimestampType}
import org.apache.spark.unsafe.types.UTF8String

/** The SELECT of a projection, whose rows are its table's. */
class Select(text: String) {
  private val tokens = SqlTokens.of(text)
  private val depths = SqlTokens.depths(tokens)

  /** The whole text. */
  def whole: String = text

  /** The table that stands after FROM, where one does. */
  def table: Option[String] = from.flatMap(index => new Cursor(text, tokens.drop(index + 1)).name)

  private def from: Option[Int] = tokens.indices.find { index =>
    depths(index) == 0 && tokens(index).is("FROM") && !tokens.lift(index - 1).exists(_.is("DISTINCT"))
  }

  /** Returns the text without `FROM table`, which a projection does not say. */
  def without(table: String): String = {
    val said = from.map(index => new Cursor(text, tokens.drop(index + 1)))
    val isOfTable = said.flatMap(_.name).exists(isSame(_, table))
    if (isOfTable) (text.take(tokens(from.get).start) + text.drop(said.get.position)).trim
    else text.trim
  }

  private def isSame(one: String, other: String): Boolean = {
    def plain(name: String) = name.replace("`", "").toLowerCase
    plain(one) == plain(other) || plain(other).endsWith("." + plain(one))
  }

  /**
   * Returns this with its time column in chunks, as the properties of a CarbonData time series say:
   * `'event_time' = 'time', 'hour_granularity' = '1'`; and `timeseries(time, 'hour')` as a chunk. Several minutes
   * have a name in projseg alone, and stay if `isForSpark`.
   */
  def inTimeSeries(properties: String, isForSpark: Boolean = false): Select = {
    val said =
      """'(\w+)'\s*=\s*'([^']*)'""".r.findAllMatchIn(properties).map(one => one.group(1).toLowerCase -> one.group(2))
    val values = said.toMap
    val unit = values.keys.collectFirst { case Select.granularity(one) => one }
    val chunked = for { column <- values.get("event_time"); one <- unit } yield {
      val alone = tokens.indices.filter { index =>
        depths(index) == 0 && tokens(index).is(column) &&
          tokens.lift(index - 1).exists(before => Select.before.exists(before.is)) &&
          tokens.lift(index + 1).forall(after => Select.after.exists(after.is))
      }
      alone.map(tokens(_)).foldRight(text) { (token, left) =>
        left.patch(token.start, s"date_trunc('$one', ${token.text})", token.end - token.start)
      }
    }
    new Select(Select.call.replaceAllIn(chunked.getOrElse(text), found => {
      val (time, unit) = (found.group(1), found.group(2))
      Regex.quoteReplacement(TimeSeries.minutes.get(unit.toLowerCase(Locale.ROOT)) match {
        case None => s"date_trunc('$unit', $time)"
        case Some(_) if isForSpark => found.matched
        case Some(count) => s"timestamp_floor($time, 'PT${count}M')"
      })
    }))
  }
}

/** CarbonData's `timeseries(time, 'hour')`, which is a chunk of time. */
object TimeSeries {
  /** Units of several minutes. */
  val minutes: Map[String, Int] =
    Map("five_minute" -> 5, "ten_minute" -> 10, "fifteen_minute" -> 15, "thirty_minute" -> 30)
  private val ofDates = Seq("year", "month", "week", "day")
  private val units = ofDates ++ Seq("hour") ++ minutes.keys ++ Seq("minute", "second")

  val function: (FunctionIdentifier, ExpressionInfo, Seq[Expression] => Expression) = (
    FunctionIdentifier("timeseries"), new ExpressionInfo(getClass.getName, "timeseries"), {
      case Seq(time, Literal(unit: UTF8String, _)) => floor(time, unit.toString.toLowerCase(Locale.ROOT))
      case _ => throw refused
    })

  private def floor(time: Expression, unit: String): Expression = {
    val isDate = time.dataType == DateType
    if (!units.contains(unit) || isDate && !ofDates.contains(unit)) throw refused
    minutes.get(unit).map(MinuteFloor(time, _)).getOrElse(TruncTimestamp(Literal(unit.toUpperCase(Locale.ROOT)), time))
  }

  private def refused: Exception = ProjsegError.of(
    s"timeseries takes a time and one of ${units.mkString("'", "', '", "'")}; " +
        s"of a date one of the first ${ofDates.size}")
}

/** The begin of so many minutes of the session zone's clock, which divide an hour. */
case class MinuteFloor(child: Expression, minutes: Int, timeZoneId: Option[String] = None)
    extends UnaryExpression with ImplicitCastInputTypes with TimeZoneAwareExpression with CodegenFallback {
  override def inputTypes: Seq[AbstractDataType] = Seq(TimestampType)
  override def dataType: DataType = TimestampType
  override def withTimeZone(zone: String): TimeZoneAwareExpression = copy(timeZoneId = Option(zone))
  override protected def nullSafeEval(micros: Any): Any = {
    val time = DateTimeUtils.microsToInstant(micros.asInstanceOf[Long]).atZone(zoneId)
    val floor = time.truncatedTo(ChronoUnit.HOURS).plusMinutes(time.getMinute / minutes * minutes)
    DateTimeUtils.instantToMicros(floor.toInstant)
  }
  override protected def withNewChildInternal(changed: Expression): MinuteFloor = copy(child = changed)
}

object Select {
  private val granularity = "(second|minute|hour|day|week|month|year)_granularity".r
  private val call = """(?i)timeseries\s*\(\s*(`[^`]+`|[\w.]+)\s*,\s*'(\w+)'\s*\)""".r
  private val before = Seq("SELECT", ",", "BY")
  private val after = Seq(",", "FROM", "WHERE", "GROUP", ";")
}
