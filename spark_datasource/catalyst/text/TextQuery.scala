package org.apache.spark.sql.projseg

import java.nio.charset.StandardCharsets.UTF_8

/** The query of text_match: SPEC.md section 16 says what words are, and docs/indexes.md how queries are written. */
sealed trait TextQuery extends Serializable {
  def matches(words: TextWords): Boolean
}

/** Words in a row, often one. */
case class Phrase(wanted: Array[WantedWord]) extends TextQuery {
  override def matches(words: TextWords): Boolean =
    (0 to words.count - wanted.length)
      .exists(start => wanted.indices.forall(at => words.isWord(start + at, wanted(at))))
}

case class EveryPart(parts: Seq[TextQuery]) extends TextQuery {
  override def matches(words: TextWords): Boolean = parts.forall(_.matches(words))
}

case class SomePart(parts: Seq[TextQuery]) extends TextQuery {
  override def matches(words: TextWords): Boolean = parts.exists(_.matches(words))
}

case class WithoutPart(part: TextQuery) extends TextQuery {
  override def matches(words: TextWords): Boolean = !part.matches(words)
}

/** A column fulfils a query of its own, in a query that names its columns. */
case class OfColumn(column: String, query: String) extends TextQuery {
  override def matches(words: TextWords): Boolean = throw new IllegalStateException("a column's query has no columns")
}

object TextQuery {
  private[projseg] val Refused = "~^?[]{}+:"
  private val BytesMax = 4096

  /** Returns the tree of a query; as the engine does, and with its errors. */
  def read(text: String): TextQuery = read(text, namesColumns = false)

  /**
   * Returns the tree of a query as CarbonData writes them, `name:n10 -name:*n*`, whose leaves are `OfColumn`. There
   * two parts side by side mean either, here they would mean both, so a word must stand between them.
   */
  def ofColumns(text: String): TextQuery = read(text, namesColumns = true)

  private def read(text: String, namesColumns: Boolean): TextQuery = {
    val codes = text.codePoints().toArray
    if (text.getBytes(UTF_8).length > BytesMax) throw failed(codes, 0, s"is longer than $BytesMax bytes")
    new QueryReader(codes, new QueryTokens(codes, namesColumns).all, namesColumns).whole
  }

  def failed(query: Array[Int], position: Int, problem: String): Exception = {
    val shown = if (query.length <= 80) textOf(query) else textOf(query.take(77)) + "..."
    ProjsegError.of("PROJSEG_BAD_TEXT_QUERY",
      s"the text query '$shown' $problem, at position ${position + 1}; it may have words, " +
        "\"words in a row\", OR, NOT or -, brackets, and words with *")
  }

  def textOf(codes: Array[Int]): String = new String(codes, 0, codes.length)

  /** Whether Python's regular expressions take a character for white space. */
  def isSpace(code: Int): Boolean = code match {
    case 0x85 | 0xA0 | 0x1680 | 0x2028 | 0x2029 | 0x202F | 0x205F | 0x3000 => true
    case _ => code >= 0x09 && code <= 0x0D || code >= 0x1C && code <= 0x20 || code >= 0x2000 && code <= 0x200A
  }
}

/** What it is: `(`, `)`, `-`, `AND`, `OR`, `NOT`, `part` or `end`; and where it begins. */
private case class QueryToken(kind: String, position: Int, part: Option[TextQuery] = None, wordCount: Int = 0)

private class QueryTokens(query: Array[Int], namesColumns: Boolean) {
  private val WordsMax = 64

  def all: Seq[QueryToken] = {
    val found = Seq.newBuilder[QueryToken]
    var wordCount = 0
    var at = skipped(0)
    while (at < query.length) {
      val (token, end) = if (namesColumns) nextOfColumns(at) else next(at)
      wordCount += token.wordCount
      if (wordCount > WordsMax) throw TextQuery.failed(query, at, s"has more than $WordsMax words")
      found += token
      at = skipped(end)
    }
    (found += QueryToken("end", query.length)).result()
  }

  private def skipped(start: Int): Int = query.indexWhere(code => !TextQuery.isSpace(code), start) match {
    case -1 => query.length
    case place => place
  }

  private def nextOfColumns(start: Int): (QueryToken, Int) = {
    val colon = query.indexWhere(code => code == ':' || isEnd(code), start)
    val isColumn = colon > start && query(colon) == ':' && query(start) != '-'
    if (!isColumn || query.lift(colon + 1).forall(code => code != '"' && isEnd(code))) {
      val found = next(start)
      if (found._1.part.isDefined) throw TextQuery.failed(query, start, "does not say of which column, as in name:word")
      found
    } else {
      val (token, end) = next(colon + 1)
      if (token.part.isEmpty) throw TextQuery.failed(query, colon + 1, "has nothing to search for")
      val of = OfColumn(TextQuery.textOf(query.slice(start, colon)), TextQuery.textOf(query.slice(colon + 1, end)))
      (QueryToken("part", start, Some(of), token.wordCount), end)
    }
  }

  /** Whether a character ends a word of a query. */
  private def isEnd(code: Int): Boolean = TextQuery.isSpace(code) || code == '(' || code == ')' || code == '"'

  private def next(start: Int): (QueryToken, Int) = query(start) match {
    case '(' | ')' | '-' => (QueryToken(query(start).toChar.toString, start), start + 1)
    case '"' =>
      val end = query.indexOf('"'.toInt, start + 1)
      if (end < 0) throw TextQuery.failed(query, start, "has a quote that is not closed")
      (phrase(start, wordsOf(query.slice(start + 1, end))), end + 1)
    case _ =>
      val end = query.indexWhere(isEnd, start) match {
        case -1 => query.length
        case place => place
      }
      (written(start, query.slice(start, end)), end)
  }

  private def written(start: Int, word: Array[Int]): QueryToken = TextQuery.textOf(word) match {
    case sign @ ("AND" | "OR" | "NOT") => QueryToken(sign, start)
    case _ =>
      val refused = word.indexWhere(TextQuery.Refused.indexOf(_) >= 0)
      if (refused >= 0) throw TextQuery.failed(query, start + refused,
        s"has ${word(refused).toChar}, which means nothing here (quote it to search for it)")
      phrase(start, patternWords(word))
  }

  private def phrase(start: Int, words: Seq[String]): QueryToken = {
    if (words.isEmpty || words.contains("*")) throw TextQuery.failed(query, start, "has nothing to search for")
    val wanted = words.map(WantedWord.of).toArray
    QueryToken("part", start, Some(Phrase(wanted)), wanted.length)
  }

  private def wordsOf(codes: Array[Int]): Seq[String] = TextWords.of(TextQuery.textOf(codes))

  /** The words of a query's word, in which each * belongs to the letters beside it. */
  private def patternWords(word: Array[Int]): Seq[String] = {
    val pieces = TextQuery.textOf(word).split("\\*+", -1).map(_.codePoints().toArray)
    var found = wordsOf(pieces.head)
    var before = pieces.head
    def isOfWord(code: Int) = Characters.kind(code) == Characters.Word
    for (piece <- pieces.tail) {
      if (found.nonEmpty && before.lastOption.exists(isOfWord)) found = found.init :+ (found.last + "*")
      else found :+= "*"
      val after = wordsOf(piece)
      if (after.nonEmpty && isOfWord(piece.head)) found = (found.init :+ (found.last + after.head)) ++ after.tail
      else found ++= after
      before = piece
    }
    found
  }
}

/** Reads a tree from tokens; OR binds weaker than words side by side. */
private class QueryReader(query: Array[Int], tokens: Seq[QueryToken], namesColumns: Boolean) {
  private val DepthMax = 64
  private var place = 0

  def whole: TextQuery = {
    val found = some(0)
    if (next.kind != "end") throw TextQuery.failed(query, next.position, "has a bracket that was not opened")
    found
  }

  private def next: QueryToken = tokens(place)

  private def take(): QueryToken = {
    place += 1
    tokens(place - 1)
  }

  private def some(depth: Int): TextQuery = {
    var parts = Seq(every(depth))
    while (next.kind == "OR") {
      take()
      parts :+= every(depth)
    }
    if (parts.size == 1) parts.head else SomePart(parts)
  }

  private def every(depth: Int): TextQuery = {
    var parts = Seq(part(depth))
    while (!Set(")", "OR", "end").contains(next.kind)) {
      if (next.kind == "AND") take()
      else if (namesColumns && !Set("-", "NOT").contains(next.kind) && parts.exists(!_.isInstanceOf[WithoutPart]))
        throw TextQuery.failed(query, next.position, "has parts side by side: write AND or OR between them")
      parts :+= part(depth)
    }
    if (parts.size == 1) parts.head else EveryPart(parts)
  }

  private def part(depth: Int): TextQuery = {
    val token = take()
    if (depth == DepthMax) throw TextQuery.failed(query, token.position, s"nests deeper than $DepthMax")
    token.kind match {
      case "part" => token.part.get
      case "-" | "NOT" => WithoutPart(part(depth + 1))
      case "(" =>
        val found = some(depth + 1)
        if (take().kind != ")") throw TextQuery.failed(query, token.position, "has a bracket that is not closed")
        found
      case _ => throw TextQuery.failed(query, token.position, "has nothing to search for")
    }
  }
}
