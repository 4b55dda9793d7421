package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.LongType

/**
 * A call of a function that projseg has with the meaning that Catalyst's expression has.
 *
 * @param write the text of the call, from those of the arguments
 * @param mayFail whether it may raise an error for some values, or refuse what Spark answers
 */
case class FunctionCall(arguments: Seq[Expression], write: Seq[String] => String, mayFail: Boolean = false)

/**
 * Functions by Catalyst's classes: those of the records, and those whose text is no call. Functions whose
 * last digit is the platform's, as logarithms, are left to Spark; so is what wraps around or gives null
 * where projseg raises an error.
 */
object Functions {
  private lazy val calls = new CatalystCalls("functions", "")

  def unapply(expression: Expression): Option[FunctionCall] = expression match {
    case Like(text, pattern: Literal, escape) => like(text, pattern, escape)
    case _: StringSplit => None // an array, which projseg takes only an item of
    case GetArrayItem(array: StringSplit, place, isAnsi) if place.dataType != LongType => // which Spark cuts to an int
      called(array).map(item(place, isAnsi))
    case MinuteFloor(time, minutes, _) =>
      Some(FunctionCall(Seq(time), texts => s"timestamp_floor(${texts.head}, 'PT${minutes}M')"))
    case other => called(other)
  }

  private def called(expression: Expression): Option[FunctionCall] = calls.of(expression).map {
    case (call, arguments) => FunctionCall(arguments, call.written, call.mayFail)
  }

  private def like(text: Expression, pattern: Literal, escape: Char): Option[FunctionCall] = {
    val suffix = if (escape == '\\') "" else s" ESCAPE '$escape'"
    if (escape == '\'') None
    else Some(FunctionCall(Seq(text, pattern), texts => s"(${texts(0)} LIKE ${texts(1)}$suffix)"))
  }

  private def item(place: Expression, isAnsi: Boolean)(array: FunctionCall): FunctionCall =
    array.copy(arguments = array.arguments :+ place, write = texts => {
      val written = array.write(texts.init)
      if (isAnsi) s"$written[${texts.last}]" else s"get($written, ${texts.last})"
    })
}
