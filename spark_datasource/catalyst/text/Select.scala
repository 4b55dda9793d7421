package org.apache.spark.sql.projseg

import java.util.Locale

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo, Literal, TruncTimestamp}
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
   * `'event_time' = 'time', 'hour_granularity' = '1'`; and `timeseries(time, 'hour')` as a chunk.
   */
  def inTimeSeries(properties: String): Select = {
    val said = """'(\w+)'\s*=\s*'([^']*)'""".r.findAllMatchIn(properties).map(one => one.group(1).toLowerCase -> one.group(2))
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
    new Select(Select.call.replaceAllIn(chunked.getOrElse(text), "date_trunc($2, $1)"))
  }
}

/** CarbonData's `timeseries(time, 'hour')`, which is a chunk of time. */
object TimeSeries {
  private val units = Set("second", "minute", "hour", "day", "week", "month", "year")

  val function: (FunctionIdentifier, ExpressionInfo, Seq[Expression] => Expression) = (
    FunctionIdentifier("timeseries"), new ExpressionInfo(getClass.getName, "timeseries"), {
      case Seq(time, Literal(unit: UTF8String, _)) if units.contains(unit.toString.toLowerCase(Locale.ROOT)) =>
        TruncTimestamp(Literal(unit.toString.toUpperCase(Locale.ROOT)), time)
      case _ => throw Statement.failed(s"timeseries takes a time and one of ${units.toSeq.sorted.mkString("'", "', '", "'")}")
    })
}

object Select {
  private val granularity = "(second|minute|hour|day|week|month|year)_granularity".r
  private val call = """(?i)timeseries\s*\(\s*(`[^`]+`|[\w.]+)\s*,\s*('\w+')\s*\)""".r
  private val before = Seq("SELECT", ",", "BY")
  private val after = Seq(",", "FROM", "WHERE", "GROUP", ";")
}
