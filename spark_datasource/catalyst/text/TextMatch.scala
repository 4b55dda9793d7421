package org.apache.spark.sql.projseg

import scala.util.Try

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{And, BinaryExpression, Cast, Expression, ExpressionInfo, Literal, Not, Or, Predicate}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.{BooleanType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** A query of text_match that was read, for generated code. */
final class TextMatcher(query: TextQuery) extends Serializable {
  def matches(text: UTF8String): Boolean = query.matches(new TextWords(text.getBytes))
}

/** Whether a text holds the words of a query, as the engine's text_match says; `right` is constant. */
case class TextMatch(left: Expression, right: Expression) extends BinaryExpression with Predicate {
  @transient private lazy val matcher = new TextMatcher(TextQuery.read(right.eval().toString))

  override def prettyName: String = "text_match"
  override def nullable: Boolean = left.nullable

  override def eval(row: InternalRow): Any = left.eval(row) match {
    case null => null
    case text: UTF8String => matcher.matches(text)
  }

  override protected def doGenCode(ctx: CodegenContext, made: ExprCode): ExprCode = {
    val name = ctx.addReferenceObj("textMatcher", matcher)
    val text = left.genCode(ctx)
    made.copy(code = code"""
      ${text.code}
      boolean ${made.isNull} = ${text.isNull};
      boolean ${made.value} = ${text.isNull} ? false : $name.matches(${text.value});""")
  }

  override protected def withNewChildrenInternal(text: Expression, query: Expression): TextMatch =
    copy(left = text, right = query)
}

object TextMatch {
  val function: (FunctionIdentifier, ExpressionInfo, Seq[Expression] => Expression) = (
    FunctionIdentifier("text_match"), new ExpressionInfo(getClass.getName, "text_match"), {
      case Seq(text, query) => made(text, query)
      case Seq(Literal(query: UTF8String, _)) => ofColumns(TextQuery.ofColumns(query.toString))
      case others => throw ProjsegError.of(
        "PROJSEG_BAD_EXPRESSION", s"text_match takes 2 arguments, not ${others.size}")
    })

  /** CarbonData's function, whose second argument is a limit. */
  val withLimit: (FunctionIdentifier, ExpressionInfo, Seq[Expression] => Expression) = (
    FunctionIdentifier("text_match_with_limit"), new ExpressionInfo(getClass.getName, "text_match_with_limit"), {
      _ => throw ProjsegError.of("PROJSEG_UNSUPPORTED_FUNCTION",
        "text_match_with_limit is not supported; write text_match in WHERE, and LIMIT at the query's end")
    })

  /** CarbonData's `TEXT_MATCH('name:n10 -name:*n*')`, as text_match of each column that it names. */
  private def ofColumns(query: TextQuery): Expression = query match {
    case OfColumn(column, words) => TextMatch(UnresolvedAttribute.quoted(column), Literal(words))
    case WithoutPart(part) => Not(ofColumns(part))
    case EveryPart(parts) => parts.map(ofColumns).reduceLeft(And(_, _))
    case SomePart(parts) => parts.map(ofColumns).reduceLeft(Or(_, _))
    case _: Phrase => throw new IllegalStateException("a phrase outside of a column")
  }

  private def made(text: Expression, query: Expression): Expression = {
    val constant = Option.when(query.foldable)(Try(Cast(query, StringType, Some("UTC")).eval()).toOption).flatten
    constant match {
      case None => throw ProjsegError.of("PROJSEG_BAD_EXPRESSION", "the query of text_match must be a constant")
      case Some(null) => Literal(null, BooleanType)
      case Some(written) =>
        TextQuery.read(written.toString)
        TextMatch(asText(text), Literal(written, StringType))
    }
  }

  private def asText(value: Expression): Expression = value.dataType match {
    case _: StringType => value
    case _ => Cast(value, StringType)
  }
}
