package org.apache.spark.sql.projseg

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.time.Instant
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.catalyst.util.DateTimeUtils

/** Whether projseg has the rules of a time zone that this JVM has; each zone is asked about once. */
object ZoneRules {
  private val known = new ConcurrentHashMap[(String, String), java.lang.Boolean]()
  private val start = Instant.parse("1800-01-01T00:00:00Z")
  private val end = Instant.parse("2100-01-01T00:00:00Z")

  /** False too if the engine does not know the zone, or cannot be asked. */
  def areShared(settings: Settings, zone: String): Boolean = zone == "UTC" || {
    val key = (settings.python, zone)
    Option(known.get(key)).map(_.booleanValue).getOrElse {
      val asked = Engine.request("zone_rules", Map("zone" -> zone))
      Engine.ask(settings.python, asked, limitMillis = Some(settings.localMillis)).exists { reply =>
        val found = reply.error.isEmpty && reply.content.get("rules").asText == hash(zone)
        known.put(key, found)
        found
      }
    }
  }

  /** As `zone_rules` in Python: of the first offset and of each change of it, in seconds. */
  def hash(zone: String): String = {
    val rules = DateTimeUtils.getZoneId(zone).getRules
    val changes = Iterator.iterate(rules.nextTransition(start))(last => rules.nextTransition(last.getInstant))
      .takeWhile(change => change != null && !change.getInstant.isAfter(end))
      .filterNot(_.getDuration.isZero)
      .map(change => s" ${change.getInstant.getEpochSecond} ${change.getOffsetAfter.getTotalSeconds}")
    val text = rules.getOffset(start).getTotalSeconds.toString + changes.mkString
    MessageDigest.getInstance("SHA-256").digest(text.getBytes(UTF_8)).map("%02x".format(_)).mkString.take(32)
  }
}
