package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/**
 * The frozen table of characters, SPEC.md section 16: the same file that the engine reads, so that a word does
 * not depend on the Unicode of this JVM. An entry is the character's fold, its class and `Nothing`.
 */
object Characters {
  val Word = 1
  private val ClassShift = 21
  private val Nothing = 1 << 23
  private val Fold = (1 << ClassShift) - 1

  private lazy val table: Array[Int] = {
    val content = getClass.getResourceAsStream("characters.json")
    val stated = try new ObjectMapper().readTree(content) finally content.close()
    def numbers(name: String): Seq[Seq[Int]] =
      stated.get(name).elements().asScala.map((one: JsonNode) => one.asInt).toSeq.grouped(2).map(_.toSeq).toSeq
    val made = Array.range(0, Character.MAX_CODE_POINT + 1)
    for (Seq(code, fold) <- numbers("folds")) made(code) = if (fold < 0) Nothing else fold
    for ((name, kind) <- Seq("words" -> Word, "singles" -> 2); Seq(first, last) <- numbers(name); code <- first to last)
      made(code) |= kind << ClassShift
    made
  }

  /** Of a character: 0 for a gap, `Word`, or 2 for one that is a word alone. */
  def kind(code: Int): Int = (table(code) >> ClassShift) & 3

  /** The fold of a character, below 0 if it folds to nothing. */
  def fold(code: Int): Int = if ((table(code) & Nothing) != 0) -1 else table(code) & Fold
}
