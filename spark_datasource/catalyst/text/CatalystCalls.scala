package org.apache.spark.sql.projseg

import java.util.regex.Matcher.quoteReplacement

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** A record of `algebra/expressions/catalyst_call.py`. */
case class CatalystCall(record: JsonNode) {
  val expression: String = record.get("expression").asText
  val function: String = record.get("function").asText
  val isApproximate: Boolean = record.get("isApproximate").asBoolean
  val mayFail: Boolean = record.get("mayFail").asBoolean
  private val isVariadic = record.get("isVariadic").asBoolean
  private val kinds = record.get("arguments").elements.asScala.map(_.asText).toSeq
  private val parameters =
    record.get("parameters").properties.asScala.map(one => one.getKey -> one.getValue.asText).toMap
  private val text = Option(record.get("text")).filterNot(_.isNull).map(_.asText)

  /** The arguments of the call, or None if the expression does not mean the same. */
  def argumentsOf(expression: Expression): Option[Seq[Expression]] = {
    val arguments = kindsOf(expression).map { case (child, kind) => Arguments.of(kind, child) }
    val hasAll = (isVariadic || expression.children.size == kinds.size) && arguments.forall(_.isDefined)
    val fits = hasAll && parameters.forall {
      case (name, value) => expression.getClass.getMethod(name).invoke(expression).toString == value
    }
    if (fits) Some(arguments.flatten.dropRight(kinds.count(_ == "SIZE"))) else None
  }

  /** The last arguments, where they are plain numbers. */
  def sizesOf(expression: Expression): Seq[String] =
    kindsOf(expression).collect { case (child, "SIZE") => child.toString }

  private def kindsOf(expression: Expression): Seq[(Expression, String)] =
    expression.children.zip(if (isVariadic) expression.children.map(_ => kinds.head) else kinds)

  def written(texts: Seq[String]): String = text match {
    case Some(form) => CatalystCall.place.replaceAllIn(form, found => quoteReplacement(texts(found.group(1).toInt)))
    case None => s"$function(${texts.mkString(", ")})"
  }
}

object CatalystCall {
  private val place = "\\{(\\d)\\}".r
}

/** The records of a list of the jar, by the names of Catalyst's classes. */
class CatalystCalls(list: String, spark: String) {
  private val calls = SharedLists.at(list).elements.asScala.map(CatalystCall(_)).toSeq.groupBy(_.expression)
  private val packages = Seq(s"org.apache.spark.sql.catalyst.expressions.$spark", "org.apache.spark.sql.projseg.")

  /** The first call that fits an expression, and its arguments. */
  def of(expression: Expression): Option[(CatalystCall, Seq[Expression])] = {
    val name = expression.getClass.getName
    val own = packages.find(one => name.startsWith(one)).map(one => name.drop(one.length))
    own.flatMap(calls.get).getOrElse(Nil).iterator
      .flatMap(call => call.argumentsOf(expression).map(call -> _)).nextOption()
  }
}

/** What the arguments of calls must be. */
object Arguments {
  /** An argument as it is written, if it is of a kind. */
  def of(kind: String, argument: Expression): Option[Expression] = {
    val fits = kind match {
      case "ANY" | "BYTES" => true
      case "TEXT" => isText(argument)
      case "CONSTANT" => argument.isInstanceOf[Literal]
      case "SIZE" => IntegerLiteral.unapply(argument).isDefined
      case "TIME_PATTERN" => argument.isInstanceOf[Literal] && formatsAsJava
      case "DOUBLE" => argument.dataType == DoubleType
      case "NO_DOUBLE" => argument.dataType != DoubleType && argument.dataType != FloatType
      case "NO_WHOLE_NUMBER" => !argument.dataType.isInstanceOf[IntegralType]
    }
    if (!fits) None else if (kind == "BYTES") Some(bytes(argument)) else Some(argument)
  }

  /** The text whose UTF-8 is digested, where there is one: a cast that no error comes from. */
  private def bytes(expression: Expression): Expression = expression match {
    case cast: Cast if cast.dataType == BinaryType && isText(cast.child) => cast.child
    case other => other
  }

  /** Whether times are written by the formatter that Spark has had since 3.0. */
  private def formatsAsJava: Boolean = SQLConf.get.getConfString("spark.sql.legacy.timeParserPolicy") == "CORRECTED"

  def isText(expression: Expression): Boolean = expression.dataType == StringType
}
