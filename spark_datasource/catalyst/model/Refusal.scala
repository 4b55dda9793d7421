package org.apache.spark.sql.projseg

/**
 * Why Spark answers by itself. `detail` may hold literals of the query, and `views`, reasons against each, values of
 * tables; `words` never do.
 */
case class Refusal(words: String, detail: String = "", views: Seq[(String, String)] = Nil) {
  override def toString: String =
    ((if (detail.isEmpty) words else s"$words: $detail") +: views.map { case (name, why) => s"not $name: $why" })
      .mkString("; ")
  /** Without literals and values. */
  def coded: String =
    (words +: views.map { case (name, why) => s"$name: ${why.takeWhile(_ != ' ')}" }).mkString("; ")
}

object Refusal {
  val ofEngine: Refusal = Refusal("the engine's process failed")
  val ofTime: Refusal = Refusal("the engine took longer than spark.projseg.local.timeout")
  val ofTypes: Refusal = Refusal("columns are declared with other types than stored")
}
