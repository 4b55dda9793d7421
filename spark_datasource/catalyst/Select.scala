package org.apache.spark.sql.projseg

/** The SELECT of a projection, whose rows are its table's. */
class Select(text: String) {
  private val tokens = SqlTokens.of(text)
  private val depths = SqlTokens.depths(tokens)

  /** Returns the text without `FROM table`, which a projection does not say. */
  def without(table: String): String = {
    val from = tokens.indices.find { index =>
      depths(index) == 0 && tokens(index).is("FROM") && !tokens.lift(index - 1).exists(_.is("DISTINCT"))
    }
    val said = from.map(index => new Cursor(text, tokens.drop(index + 1)))
    val isOfTable = said.flatMap(_.name).exists(isSame(_, table))
    if (isOfTable) (text.take(tokens(from.get).start) + text.drop(said.get.position)).trim
    else text.trim
  }

  private def isSame(one: String, other: String): Boolean = {
    def plain(name: String) = name.replace("`", "").toLowerCase
    plain(one) == plain(other) || plain(other).endsWith("." + plain(one))
  }
}
