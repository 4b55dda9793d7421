package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** The lists of `spark_datasource/shared_lists.py`, made from the records that the engine reads. */
object SharedLists {
  private lazy val lists: JsonNode = {
    val content = getClass.getResourceAsStream("lists.json")
    try new ObjectMapper().readTree(content) finally content.close()
  }

  def at(name: String): JsonNode = lists.get(name)

  /** The texts of a list. */
  def texts(name: String): Seq[String] = at(name).elements.asScala.map(_.asText).toSeq

  /** The columns of a statement's reply as DDL, which may be others of a dry run. */
  def reply(operation: String, isDry: Boolean): String = {
    val replies = at("replies")
    Option(replies.get(s"$operation dry_run")).filter(_ => isDry).getOrElse(replies.get(operation)).asText
  }
}

/** An option that steers queries, and the doors that offer it. */
case class SteeringOption(said: JsonNode) {
  private def text(name: String): Option[String] = Option(said.get(name)).filterNot(_.isNull).map(_.asText)
  val key: String = text("key").get
  /** What it steers; a hint stands in place of all that a session says about the same. */
  val about: String = text("about").get
  val isFlag: Boolean = text("takes").contains("flag")
  /** Whether it adds to what else is said, as a list of names does. */
  val adds: Boolean = text("takes").contains("list")
  val setting: Option[String] = text("setting")
  val hint: Option[String] = text("hint")
  val meaning: String = text("meaning").get
  /** What a value matches without regard to case, and what such a value is called. */
  val pattern: Option[(String, String)] = text("pattern").map(_ -> text("expected").get)
  /** The option of a read, as Spark hands it over. */
  val option: String = key.toLowerCase(java.util.Locale.ROOT)
}

object SteeringOption {
  val all: Seq[SteeringOption] = SharedLists.at("steering").elements.asScala.map(SteeringOption(_)).toSeq
}
