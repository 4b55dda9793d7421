package org.apache.spark.sql.projseg

import java.nio.charset.StandardCharsets.UTF_8
import java.util.Arrays

/** The words of a text in UTF-8, folded, in order; each has 1 to 255 bytes. */
final class TextWords(text: Array[Byte]) {
  private var content = new Array[Byte](text.length + 4)
  private var ends = new Array[Int](8)
  private var size = 0
  private var end = 0

  split()

  /** How many they are. */
  def count: Int = size

  private def toList: List[String] =
    List.tabulate(size)(number => new String(content, ends(number), ends(number + 1) - ends(number), UTF_8))

  /** Whether a word is one of a query. */
  def isWord(number: Int, wanted: WantedWord): Boolean = wanted.matches(content, ends(number), ends(number + 1))

  private def split(): Unit = {
    var at = 0
    while (at < text.length) {
      val lead = text(at) & 0xFF
      val wanted = if (lead < 0xC0) 1 else if (lead < 0xE0) 2 else if (lead < 0xF0) 3 else 4
      val bytes = math.min(wanted, text.length - at)
      var code = if (bytes == 1) lead else lead & (0x7F >> bytes)
      for (next <- 1 until bytes) code = (code << 6) | (text(at + next) & 0x3F)
      at += bytes
      add(math.min(code, Character.MAX_CODE_POINT))
    }
    finish()
  }

  private def add(code: Int): Unit = {
    val kind = Characters.kind(code)
    val fold = Characters.fold(code)
    if (kind != Characters.Word) finish()
    if (kind != 0 && fold >= 0) {
      val bytes = if (fold < 0x80) 1 else if (fold < 0x800) 2 else if (fold < 0x10000) 3 else 4
      if (end + bytes - ends(size) > TextWords.BytesMax) finish()
      put(fold, bytes)
      if (kind != Characters.Word) finish()
    }
  }

  private def put(code: Int, bytes: Int): Unit = {
    if (end + bytes > content.length) content = Arrays.copyOf(content, 2 * content.length)
    var left = code
    for (place <- bytes - 1 to 1 by -1) {
      content(end + place) = (0x80 | (left & 0x3F)).toByte
      left >>= 6
    }
    content(end) = (TextWords.leads(bytes) | left).toByte
    end += bytes
  }

  private def finish(): Unit = if (end > ends(size)) {
    size += 1
    if (size == ends.length) ends = Arrays.copyOf(ends, 2 * size)
    ends(size) = end
  }
}

object TextWords {
  private val BytesMax = 255
  private val leads = Array(0, 0, 0xC0, 0xE0, 0xF0)

  def of(text: String): List[String] = new TextWords(text.getBytes(UTF_8)).toList
}

/** A word of a query: the texts between its stars, of which there may be none. */
final class WantedWord(parts: Array[Array[Byte]]) extends Serializable {
  def matches(content: Array[Byte], start: Int, end: Int): Boolean = {
    val first = parts.head
    if (parts.length == 1) return Arrays.equals(content, start, end, first, 0, first.length)
    val last = parts.last
    val stop = end - last.length
    var at = start + first.length
    if (at > stop || !isAt(content, start, first) || !isAt(content, stop, last)) return false
    for (part <- parts.slice(1, parts.length - 1)) {
      while (at + part.length <= stop && !isAt(content, at, part)) at += 1
      if (at + part.length > stop) return false
      at += part.length
    }
    true
  }

  private def isAt(content: Array[Byte], at: Int, part: Array[Byte]): Boolean =
    Arrays.equals(content, at, at + part.length, part, 0, part.length)
}

object WantedWord {
  /** A folded word, with * for any characters. */
  def of(word: String): WantedWord = new WantedWord(word.split("\\*", -1).map(_.getBytes(UTF_8)))
}
