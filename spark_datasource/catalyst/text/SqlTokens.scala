package org.apache.spark.sql.projseg

import java.util.Locale

import org.apache.spark.sql.catalyst.util.SparkParserUtils

/** A token of SQL text, from `start` to before `end`: a word, a quoted name, a string, or one character. */
case class Token(text: String, start: Int, end: Int) {
  def is(word: String): Boolean = text.equalsIgnoreCase(word)
  def isWord: Boolean = text.head.isLetterOrDigit || text.head == '_'
  def isName: Boolean = isWord || text.head == '`'
  def isString: Boolean = text.head == '\'' || text.head == '"'
}

object SqlTokens {
  private val opening = "([{"
  private val closing = ")]}"

  /** Returns the tokens of a text, without comments; none if a quote or a comment has no end. */
  def of(text: String): Seq[Token] = {
    val found = Seq.newBuilder[Token]
    var at = 0
    while (at < text.length) {
      val end = endOf(text, at)
      if (end < 0) return Nil
      val isSkipped = text(at).isWhitespace || text.startsWith("--", at) || text.startsWith("/*", at)
      if (!isSkipped) found += Token(text.substring(at, end), at, end)
      at = end
    }
    found.result()
  }

  /** The end of what begins at `at`, or -1. */
  private def endOf(text: String, at: Int): Int = text(at) match {
    case '`' => endOfQuoted(text, at, isEscaped = false)
    case '\'' | '"' => endOfQuoted(text, at, isEscaped = true)
    case '-' if text.startsWith("--", at) => text.indexOf('\n', at) match {
      case -1 => text.length
      case end => end + 1
    }
    case '/' if text.startsWith("/*", at) => endOfComment(text, at)
    case first if first.isLetterOrDigit || first == '_' =>
      val end = text.indexWhere(one => !one.isLetterOrDigit && one != '_', at)
      if (end < 0) text.length else end
    case _ => at + 1
  }

  private def endOfQuoted(text: String, start: Int, isEscaped: Boolean): Int = {
    val quote = text(start)
    var at = start + 1
    while (at < text.length) {
      if (isEscaped && text(at) == '\\') at += 2
      else if (text(at) != quote) at += 1
      else if (text.startsWith(s"$quote", at + 1)) at += 2
      else return at + 1
    }
    -1
  }

  /** Bracketed comments nest. */
  private def endOfComment(text: String, start: Int): Int = {
    var depth = 1
    var at = start + 2
    while (at < text.length && depth > 0) {
      if (text.startsWith("/*", at)) { depth += 1; at += 2 }
      else if (text.startsWith("*/", at)) { depth -= 1; at += 2 }
      else at += 1
    }
    if (depth == 0) at else -1
  }

  /** For each token how many brackets are open before it; a closing one counts as outside. */
  def depths(tokens: Seq[Token]): Seq[Int] = {
    var depth = 0
    tokens.map { token =>
      if (closing.contains(token.text)) depth -= 1
      val found = depth
      if (opening.contains(token.text)) depth += 1
      found
    }
  }
}

/** Reads tokens from left to right; each step is None where the text is something else. */
class Cursor(text: String, tokens: Seq[Token]) {
  private var at = 0

  /** Where the token that was taken last ends in the text. */
  def position: Int = tokens(at - 1).end

  /** Takes these words, all or none. */
  def words(expected: String): Option[Unit] = {
    val wanted = expected.split(' ')
    val isThere = tokens.slice(at, at + wanted.length).corresponds(wanted)(_.is(_))
    if (isThere) at += wanted.length
    if (isThere) Some(()) else None
  }

  /** Whether these words come next, which are then taken. */
  def has(expected: String): Boolean = words(expected).isDefined

  /** A name of one or more parts, as it is written. */
  def name: Option[String] = {
    val start = at
    if (!next.exists(_.isName)) return None
    at += 1
    while (tokens.lift(at).exists(_.is(".")) && tokens.lift(at + 1).exists(_.isName)) at += 2
    Some(text.substring(tokens(start).start, tokens(at - 1).end))
  }

  /** A string, without its quotes. */
  def string: Option[String] = take(_.isString).map(token => SparkParserUtils.unescapeSQLString(token.text))

  def number: Option[Long] = take(_.text.forall(_.isDigit)).flatMap(_.text.toLongOption)

  /** What stands between a bracket that comes next and the one that closes it. */
  def bracketed: Option[String] =
    if (!next.exists(_.is("("))) None
    else {
      val left = tokens.drop(at)
      val length = SqlTokens.depths(left).zip(left).indexWhere { case (depth, token) => depth == 0 && token.is(")") }
      if (length < 0) None
      else {
        val inside = text.substring(left.head.end, left(length).start)
        at += length + 1
        Some(inside)
      }
    }

  /** The texts between commas of what stands in brackets that come next. */
  def list: Option[Seq[String]] = bracketed.map { inside =>
    val found = SqlTokens.of(inside)
    val commas = found.zip(SqlTokens.depths(found)).collect { case (token, 0) if token.is(",") => token }
    val starts = 0 +: commas.map(_.end)
    starts.zip(commas.map(_.start) :+ inside.length).map { case (start, end) => inside.substring(start, end).trim }
  }

  /** Names and values in brackets that come next, as Spark writes properties; names in lower case. */
  def properties: Option[Map[String, String]] = list.flatMap { written =>
    val found = written.filter(_.nonEmpty).map { one =>
      val pair = new Cursor(one, SqlTokens.of(one))
      for {
        name <- pair.string.orElse(pair.name)
        _ = pair.has("=")
        value <- pair.rest
        text = new Cursor(value, SqlTokens.of(value))
      } yield name.toLowerCase(Locale.ROOT) -> text.string.filter(_ => text.end.isDefined).getOrElse(value)
    }
    if (found.forall(_.isDefined)) Some(found.flatten.toMap) else None
  }

  /** All that is left but for semicolons, which is something. */
  def rest: Option[String] = {
    val left = tokens.drop(at).reverse.dropWhile(_.is(";")).reverse
    at = tokens.length
    for { first <- left.headOption; last <- left.lastOption } yield text.substring(first.start, last.end)
  }

  /** The end of the text, where semicolons may stand. */
  def end: Option[Unit] = if (tokens.drop(at).forall(_.is(";"))) Some(()) else None

  private def next: Option[Token] = tokens.lift(at)

  private def take(isWanted: Token => Boolean): Option[Token] = {
    val found = next.filter(isWanted)
    if (found.isDefined) at += 1
    found
  }
}
