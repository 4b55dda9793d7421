package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Resolved Catalyst expressions as the Spark SQL text that projseg binds to the same meaning.
 *
 * What is not listed here has no text, and stays in Spark. `mayFail` says whether evaluating the
 * expression may raise an error, which should then be Spark's own.
 */
case class SqlText(text: String, mayFail: Boolean = false)

object SqlText {
  private[projseg] lazy val aggregates = new CatalystCalls("aggregates", "aggregate.")

  def quoted(name: String): String = "`" + name.replace("`", "``") + "`"

  /** Whether a time is cast to a decimal with all of its digits; Spark 4.0 casts it by way of a double. */
  private[projseg] lazy val castsTimesExactly: Boolean = {
    val last = Literal(253402300799999999L, TimestampType)
    Cast(last, DecimalType(38, 18), Some("UTC")).eval() == Decimal("253402300799.999999")
  }
}

/**
 * @param zone the session's time zone
 * @param sharesRules whether projseg has this JVM's rules of it
 * @param named how a column is written
 */
class SqlTexts(zone: String, sharesRules: => Boolean,
    named: AttributeReference => String = one => SqlText.quoted(one.name)) {
  type Found = Option[SqlText]

  /** The same with columns written in another way. */
  def naming(columns: AttributeReference => String): SqlTexts = new SqlTexts(zone, sharesRules, columns)

  /** The relative standard error that Spark keeps to with as many registers as stored sketches have. */
  private val errorOfSketches = 0.0173

  def of(expression: Expression): Found = expression match {
    // The zone is the session's when the statement was analysed, or that of a view's text.
    case aware: TimeZoneAwareExpression if aware.timeZoneId.exists(_ != zone) => None
    case other if hasOtherRules(other) => None
    case literal: Literal => literalText(literal).map(SqlText(_))
    case attribute: AttributeReference if isPlain(attribute.dataType) => Some(SqlText(named(attribute)))
    case Alias(child, _) => of(child)
    case cast: Cast => castText(cast)
    case And(left, right) => infix(left, "AND", right)
    case Or(left, right) => infix(left, "OR", right)
    case Not(EqualTo(left, right)) => infix(left, "<>", right)
    case Not(child) => all(child)(texts => s"(NOT ${texts.head})")
    case EqualTo(left, right) => infix(left, "=", right)
    case EqualNullSafe(left, right) => infix(left, "<=>", right)
    case LessThan(left, right) => infix(left, "<", right)
    case LessThanOrEqual(left, right) => infix(left, "<=", right)
    case GreaterThan(left, right) => infix(left, ">", right)
    case GreaterThanOrEqual(left, right) => infix(left, ">=", right)
    case IsNull(child) => all(child)(texts => s"(${texts.head} IS NULL)")
    case IsNotNull(child) => all(child)(texts => s"(${texts.head} IS NOT NULL)")
    case In(value, list) => all(value +: list: _*)(texts => s"(${texts.head} IN (${texts.tail.mkString(", ")}))")
    case InSet(child, values) =>
      val literals = values.toSeq.map(value => Literal(value, child.dataType))
      of(In(child, literals))
    case add: Add if exact(add.evalMode, add.dataType) => infix(add.left, "+", add.right, !floating(add.dataType))
    case one: Subtract if exact(one.evalMode, one.dataType) => infix(one.left, "-", one.right, !floating(one.dataType))
    case one: Multiply if exact(one.evalMode, one.dataType) => infix(one.left, "*", one.right, !floating(one.dataType))
    case one: Divide if one.evalMode == EvalMode.ANSI => infix(one.left, "/", one.right, mayFail = true)
    case one: Remainder if floating(one.dataType) || one.evalMode == EvalMode.ANSI =>
      infix(one.left, "%", one.right, mayFail = true)
    case one: IntegralDivide if one.evalMode == EvalMode.ANSI => infix(one.left, "div", one.right, mayFail = true)
    case UnaryMinus(child, failOnError) if isNegatedExactly(child) && (failOnError || floating(child.dataType)) =>
      all(child)(texts => s"(- ${texts.head})").map(_.copy(mayFail = !floating(child.dataType)))
    case Abs(child, failOnError) if isNegatedExactly(child) && (failOnError || floating(child.dataType)) =>
      all(child)(texts => s"abs(${texts.head})").map(_.copy(mayFail = !floating(child.dataType)))
    case CaseWhen(branches, default) =>
      val children = branches.flatMap { case (condition, value) => Seq(condition, value) } ++ default
      all(children: _*) { texts =>
        val when = texts.take(2 * branches.size).grouped(2).map(pair => s"WHEN ${pair(0)} THEN ${pair(1)}")
        val otherwise = default.map(_ => s" ELSE ${texts.last}").getOrElse("")
        s"CASE ${when.mkString(" ")}$otherwise END"
      }
    case BitwiseAnd(left, right) => infix(left, "&", right)
    case BitwiseOr(left, right) => infix(left, "|", right)
    case BitwiseXor(left, right) => infix(left, "^", right)
    case BitwiseNot(child) => all(child)(texts => s"(~ ${texts.head})")
    case Functions(call) =>
      all(call.arguments: _*)(call.write).map(one => one.copy(mayFail = one.mayFail || call.mayFail))
    case _ => None
  }

  /** Whether its value depends on rules of the session's zone that projseg does not share. */
  def hasOtherRules(expression: Expression): Boolean = {
    val depends = expression match {
      case cast: Cast => Cast.needsTimeZone(cast.child.dataType, cast.dataType)
      case aware: TimeZoneAwareExpression => !aware.children.exists(_.dataType == TimestampNTZType)
      case _ => false
    }
    depends && !sharesRules
  }

  /** The part of an expression without a text that has none itself, though its children may. */
  def unknown(expression: Expression): Expression =
    expression.children.find(of(_).isEmpty).map(unknown).getOrElse(expression)

  /**
   * Returns the text of an aggregate, or None where projseg's value could be another. Its `mayFail`
   * is of arguments, condition and the sums of parts: that a whole sum does not fit is an error
   * either way. Functions whose values cannot be merged have a text if `isWhole`: of all rows at once.
   */
  def of(aggregate: AggregateExpression, approximateDistinct: Boolean, isWhole: Boolean = false): Found = {
    val filter = aggregate.filter.map(of)
    if (filter.exists(_.isEmpty)) return None
    val distinct = if (aggregate.isDistinct) "DISTINCT " else ""
    val function: Option[(String, Seq[Expression], Seq[String])] = aggregate.aggregateFunction match {
      case Count(Seq(Literal(value, _))) if value != null => Some(("count", Nil, Nil))
      case Count(children) if children.size == 1 || !aggregate.isDistinct => Some(("count", children, Nil))
      case one: Sum if floating(one.dataType) || raises(one) =>
        Some(("sum", Seq(one.child), Nil))
      case one: Average if floating(one.dataType) || raises(one) =>
        Some(("avg", Seq(one.child), Nil))
      case one: HyperLogLogPlusPlus if approximateDistinct && one.relativeSD >= errorOfSketches =>
        Some(("approx_count_distinct", Seq(one.child), Nil))
      case Percentile(child, share @ Literal(_, DoubleType), Literal(1L, LongType), _, _, false) if isWhole =>
        Some(("percentile", Seq(child, share), Nil))
      case other => SqlText.aggregates.of(other).collect {
        case (call, arguments) if approximateDistinct || !call.isApproximate =>
          (call.function, arguments, call.sizesOf(other))
      }
    }
    function.flatMap { case (name, arguments, sizes) =>
      val texts = arguments.map(of)
      val condition = filter.flatten
      val mayFail = (texts.flatten ++ condition).exists(_.mayFail) || mayOverflow(aggregate.aggregateFunction)
      if (texts.exists(_.isEmpty)) None
      else {
        val inside = if (arguments.isEmpty) "*" else (texts.flatten.map(_.text) ++ sizes).mkString(", ")
        val where = condition.map(one => s" FILTER (WHERE ${one.text})").getOrElse("")
        Some(SqlText(s"$name($distinct$inside)$where", mayFail))
      }
    }
  }

  /** Whether the sum of a part of the rows may be too large for its type. */
  private def mayOverflow(function: AggregateFunction): Boolean = function match {
    case _: Sum | _: Average => function.children.head.dataType match {
      case decimal: DecimalType => decimal.precision + 10 > DecimalType.MAX_PRECISION
      case _ => false
    }
    case _ => false
  }

  private def all(children: Expression*)(write: Seq[String] => String): Found = {
    val texts = children.map(of)
    if (texts.exists(_.isEmpty)) None
    else Some(SqlText(write(texts.flatten.map(_.text)), texts.flatten.exists(_.mayFail)))
  }

  private def infix(left: Expression, sign: String, right: Expression, mayFail: Boolean = false): Found =
    all(left, right)(texts => s"(${texts(0)} $sign ${texts(1)})").map(one => one.copy(mayFail = one.mayFail || mayFail))

  /** Whether arithmetic of a type means in this mode what it means in projseg: errors, no wrapping. */
  private def exact(mode: EvalMode.Value, dataType: DataType): Boolean =
    floating(dataType) || mode == EvalMode.ANSI

  /** Whether an aggregate raises an error where its value does not fit. Releases keep it differently. */
  private def raises(function: AggregateFunction): Boolean =
    function.productIterator.exists(part =>
      part.toString == "ANSI" || part.toString.startsWith("NumericEvalContext(ANSI"))

  /** Whether Spark keeps all digits of the negative: it rounds a decimal to 34. */
  private def isNegatedExactly(expression: Expression): Boolean = expression.dataType match {
    case decimal: DecimalType => decimal.precision <= 34
    case _ => true
  }

  private def floating(dataType: DataType): Boolean = dataType == DoubleType || dataType == FloatType

  private def castText(cast: Cast): Found = {
    val safe = Cast.canUpCast(cast.child.dataType, cast.dataType)
    val known = isPlain(cast.dataType) && isPlain(cast.child.dataType)
    val isAnsi = cast.evalMode == EvalMode.ANSI
    if (!known || !(safe || isAnsi) || !isWrittenAlike(cast, isAnsi)) None
    else {
      val mayFail = !safe || cast.child.dataType == BinaryType // whose bytes may be no UTF-8
      of(cast.child).map(one => SqlText(s"CAST(${one.text} AS ${cast.dataType.sql})", one.mayFail || mayFail))
    }
  }

  private def isWrittenAlike(cast: Cast, isAnsi: Boolean): Boolean = (cast.child.dataType, cast.dataType) match {
    case (TimestampType, _: DecimalType) => SqlText.castsTimesExactly
    case (DoubleType | FloatType, StringType) => false // keys of projections do not keep the sign of zero
    case (decimal: DecimalType, StringType) => isAnsi || decimal.scale <= 6 // else with exponents
    case _ => true
  }

  private def isPlain(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType => true
    case DateType | TimestampType | TimestampNTZType | BinaryType => true
    case _: DecimalType => true
    case other => other == StringType // with the default collation
  }

  private def literalText(literal: Literal): Option[String] = literal match {
    case Literal(null, dataType) if isPlain(dataType) => Some(s"CAST(NULL AS ${dataType.sql})")
    case Literal(value: Boolean, BooleanType) => Some(if (value) "TRUE" else "FALSE")
    case Literal(value: Byte, ByteType) => Some(s"CAST($value AS TINYINT)")
    case Literal(value: Short, ShortType) => Some(s"CAST($value AS SMALLINT)")
    case Literal(value: Int, IntegerType) => Some(s"CAST($value AS INT)")
    case Literal(value: Long, LongType) => Some(s"CAST($value AS BIGINT)")
    case Literal(value: Double, DoubleType) => Some(s"CAST('$value' AS DOUBLE)")
    case Literal(value: Float, FloatType) => Some(s"CAST('$value' AS FLOAT)")
    case Literal(value: Decimal, dataType: DecimalType) =>
      Some(s"CAST('${value.toJavaBigDecimal.toPlainString}' AS ${dataType.sql})")
    case Literal(value: UTF8String, dataType) if dataType == StringType =>
      val text = value.toString
      if (UTF8String.fromString(text) == value) Some(stringText(text)) else None // else no UTF-8
    case Literal(value: Int, DateType) =>
      val date = DateTimeUtils.daysToLocalDate(value)
      if (isUsual(date.getYear)) Some(s"DATE'$date'") else None
    case Literal(value: Long, TimestampType) =>
      val instant = DateTimeUtils.microsToInstant(value)
      if (isUsual(instant.atZone(java.time.ZoneOffset.UTC).getYear)) Some(s"TIMESTAMP'$instant'") else None
    case Literal(value: Long, TimestampNTZType) =>
      val time = DateTimeUtils.microsToLocalDateTime(value)
      if (isUsual(time.getYear)) Some(s"TIMESTAMP_NTZ'$time'") else None
    case _ => None
  }

  private def isUsual(year: Int): Boolean = year >= 1 && year <= 9998

  private def stringText(text: String): String =
    "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
}
