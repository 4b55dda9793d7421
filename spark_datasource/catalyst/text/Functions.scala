package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * A call of a function that projseg has with the meaning that Catalyst's expression has.
 *
 * @param write the text of the call, from those of the arguments
 * @param mayFail whether it may raise an error for some values, or refuse what Spark answers
 */
case class FunctionCall(arguments: Seq[Expression], write: Seq[String] => String, mayFail: Boolean = false)

/**
 * Functions by Catalyst's classes. Those whose last digit is the platform's, as logarithms, are left
 * to Spark; so is what wraps around or gives null where projseg raises an error.
 */
object Functions {
  def unapply(expression: Expression): Option[FunctionCall] = expression match {
    case StartsWith(left, right) => named("startswith", left, right)
    case EndsWith(left, right) => named("endswith", left, right)
    case Contains(left, right) => named("contains", left, right)
    case Like(left, right: Literal, escape) => like(left, right, escape)
    case RLike(left, right: Literal) if isText(left) => infix(left, "RLIKE", right).map(failing)
    case TextMatch(text, query: Literal) if isText(text) => named("text_match", text, query)
    case Upper(child) if isText(child) => named("upper", child)
    case Lower(child) if isText(child) => named("lower", child)
    case Length(child) if isText(child) => named("length", child)
    case OctetLength(child) if isText(child) => named("octet_length", child)
    case Reverse(child) if isText(child) => named("reverse", child)
    case Concat(parts) if parts.forall(isText) => named("concat", parts: _*)
    case Substring(text, position, length) if isText(text) => named("substring", text, position, length)
    case StringRepeat(text, times) if isText(text) => named("repeat", text, times).map(failing)
    case StringReplace(text, part, by) if isText(text) => named("replace", text, part, by)
    case StringInstr(text, part) if isText(text) => named("instr", text, part)
    case StringLocate(part, text, start) if isText(text) => named("locate", part, text, start)
    case StringLPad(text, length, pad) if isText(text) => named("lpad", text, length, pad).map(failing)
    case StringRPad(text, length, pad) if isText(text) => named("rpad", text, length, pad).map(failing)
    case StringTrim(text, characters) if isText(text) => trim("BOTH", text, characters)
    case StringTrimLeft(text, characters) if isText(text) => trim("LEADING", text, characters)
    case StringTrimRight(text, characters) if isText(text) => trim("TRAILING", text, characters)
    case RegExpExtract(text, pattern: Literal, group: Literal) if isText(text) =>
      named("regexp_extract", text, pattern, group).map(failing)
    case GetArrayItem(StringSplit(text, pattern: Literal, limit), place, isAnsi)
        if isText(text) && place.dataType != LongType => // which Spark cuts to an int
      named("split", text, pattern, limit).map(item(place, isAnsi)).map(failing)
    case Md5(child) => named("md5", bytes(child))
    case Sha1(child) => named("sha1", bytes(child))
    case Sha2(child, bitLength) => named("sha2", bytes(child), bitLength)
    case Crc32(child) => named("crc32", bytes(child))
    case Murmur3Hash(children, 42) => named("hash", children: _*)
    case XxHash64(children, 42L) => named("xxhash64", children: _*)

    case BitwiseAnd(left, right) => infix(left, "&", right)
    case BitwiseOr(left, right) => infix(left, "|", right)
    case BitwiseXor(left, right) => infix(left, "^", right)
    case BitwiseNot(child) => Some(FunctionCall(Seq(child), texts => s"(~ ${texts.head})"))
    case Least(children) => named("least", children: _*)
    case Greatest(children) => named("greatest", children: _*)
    case IsNaN(child) => named("isnan", child)
    case Signum(child) if child.dataType == DoubleType => named("sign", child)
    case Sqrt(child) => named("sqrt", child)
    case one: Floor => named("floor", one.child).map(failing)
    case one: Ceil => named("ceil", one.child).map(failing)
    case Round(child, digits: Literal, isAnsi) if isAnsi || !child.dataType.isInstanceOf[IntegralType] =>
      named("round", child, digits).map(failing)
    case BRound(child, digits: Literal, isAnsi) if isAnsi || !child.dataType.isInstanceOf[IntegralType] =>
      named("bround", child, digits).map(failing)
    case RoundFloor(child, digits: Literal) => named("floor", child, digits).map(failing)
    case RoundCeil(child, digits: Literal) => named("ceil", child, digits).map(failing)
    case Bin(child) => named("bin", child)
    case one: Pmod if one.evalMode == EvalMode.ANSI => named("pmod", one.left, one.right).map(failing)

    case Year(child) => named("year", child)
    case Quarter(child) => named("quarter", child)
    case Month(child) => named("month", child)
    case DayOfMonth(child) => named("day", child)
    case DayOfWeek(child) => named("dayofweek", child)
    case WeekDay(child) => named("weekday", child)
    case DayOfYear(child) => named("dayofyear", child)
    case WeekOfYear(child) => named("weekofyear", child)
    case YearOfWeek(child) => named("yearofweek", child)
    case Hour(child, _) => named("hour", child)
    case Minute(child, _) => named("minute", child)
    case Second(child, _) => named("second", child)
    case TruncTimestamp(format: Literal, time, _) => named("date_trunc", format, time)
    case MinuteFloor(time, minutes, _) => Some(FunctionCall(Seq(time), texts => s"timestamp_floor(${texts.head}, 'PT${minutes}M')"))
    case TruncDate(date, format: Literal) => named("trunc", date, format)
    case DateAdd(date, days) => named("date_add", date, days).map(failing)
    case DateSub(date, days) => named("date_sub", date, days).map(failing)
    case AddMonths(date, months) => named("add_months", date, months).map(failing)
    case LastDay(date) => named("last_day", date)
    case DateDiff(end, start) => named("datediff", end, start)
    case MakeDate(year, month, day, true) => named("make_date", year, month, day).map(failing)
    case DateFormatClass(time, pattern: Literal, _) if formatsAsJava => named("date_format", time, pattern).map(failing)
    case FromUnixTime(seconds, pattern: Literal, _) if formatsAsJava =>
      named("from_unixtime", seconds, pattern).map(failing)
    case UnixSeconds(child) => named("unix_seconds", child)
    case UnixMillis(child) => named("unix_millis", child)
    case UnixMicros(child) => named("unix_micros", child)
    case MillisToTimestamp(child) => named("timestamp_millis", child).map(failing)
    case MicrosToTimestamp(child) => named("timestamp_micros", child).map(failing)
    case SecondsToTimestamp(child) if !isFloating(child) => named("timestamp_seconds", child).map(failing)
    case _ => None
  }

  private def named(name: String, arguments: Expression*): Option[FunctionCall] =
    Some(FunctionCall(arguments, texts => s"$name(${texts.mkString(", ")})"))

  private def infix(left: Expression, sign: String, right: Expression): Option[FunctionCall] =
    Some(FunctionCall(Seq(left, right), texts => s"(${texts(0)} $sign ${texts(1)})"))

  private def like(text: Expression, pattern: Literal, escape: Char): Option[FunctionCall] = escape match {
    case '\\' => infix(text, "LIKE", pattern)
    case '\'' => None
    case other => Some(FunctionCall(Seq(text, pattern), texts => s"(${texts(0)} LIKE ${texts(1)} ESCAPE '$other')"))
  }

  private def trim(side: String, text: Expression, characters: Option[Expression]): Option[FunctionCall] = {
    val others = characters.toSeq.filter(isText)
    if (others.size < characters.size) None
    else Some(FunctionCall(text +: others, texts => s"trim($side ${texts.drop(1).headOption.getOrElse("' '")} FROM ${texts.head})"))
  }

  private def item(place: Expression, isAnsi: Boolean)(array: FunctionCall): FunctionCall =
    FunctionCall(array.arguments :+ place, texts => {
      val written = array.write(texts.init)
      if (isAnsi) s"$written[${texts.last}]" else s"get($written, ${texts.last})"
    })

  /** The text whose UTF-8 is digested, where there is one: a cast that no error comes from. */
  private def bytes(expression: Expression): Expression = expression match {
    case cast: Cast if cast.dataType == BinaryType && isText(cast.child) => cast.child
    case other => other
  }

  /** Whether times are written by the formatter that Spark has had since 3.0. */
  private def formatsAsJava: Boolean = SQLConf.get.getConfString("spark.sql.legacy.timeParserPolicy") == "CORRECTED"

  private def failing(call: FunctionCall): FunctionCall = call.copy(mayFail = true)

  private def isText(expression: Expression): Boolean = expression.dataType == StringType

  private def isFloating(expression: Expression): Boolean = Set[DataType](DoubleType, FloatType)(expression.dataType)
}
