package org.apache.spark.sql.projseg

import java.io.{DataOutputStream, EOFException}
import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.{ConcurrentLinkedDeque, ScheduledFuture, ScheduledThreadPoolExecutor, Semaphore, TimeUnit}
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.locks.LockSupport

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.internal.Logging
import org.apache.spark.sql.types.StructType

/** What an engine process replied: JSON, and the bytes of an Arrow stream. */
case class Reply(content: JsonNode, rows: Array[Byte]) {
  /** The rows, which are of a schema. */
  def packed(schema: StructType): PackedRows = PackedRows.ofArrow(rows, schema)
  /** Of an error, its code in `projseg.errors`. */
  def code: String = if (error.isEmpty) "" else content.get("code").asText
  /** A job that the process waits for, before it replies to what was asked. */
  def job: Option[JsonNode] = Option(content.get("job"))
  /** Of an error, the reason against each view that it concerns, by name. */
  def refusedViews: Seq[(String, String)] =
    Option(content.get("views")).toSeq.flatMap(_.properties().asScala.map(one => one.getKey -> one.getValue.asText))
  def error: Option[String] = Option(content.get("error")).map(_ => content.get("message").asText)
}

/**
 * Warm processes of `python -m projseg.spark_engine.engine`, one for each request that is under way, and at most
 * as many as there are processors.
 *
 * A process that fails is thrown away, and the request is tried once more in a new one.
 */
object Engine extends Logging {
  val json = new ObjectMapper()

  /** A request for an operation; its fields are texts, numbers, truth values, and lists and maps of them. */
  def request(operation: String, fields: Map[String, Any]): ObjectNode = {
    val made = json.createObjectNode().put("op", operation)
    fields.foreach { case (name, value) => made.set[ObjectNode](name, json.valueToTree[JsonNode](plain(value))) }
    made
  }

  private def plain(value: Any): Any = value match {
    case values: Seq[_] => values.map(plain).asJava
    case values: Map[_, _] => values.map { case (name, one) => name -> plain(one) }.asJava
    case other => other
  }

  private val idle = new ConcurrentLinkedDeque[EngineProcess]()
  // More processes than processors would only share them, and each keeps what it has read.
  private val places = new Semaphore(math.max(2, Runtime.getRuntime.availableProcessors), true)
  sys.addShutdownHook(idle.forEach(_.stop()))

  private val clock = {
    val made = new ScheduledThreadPoolExecutor(1, (task: Runnable) => {
      val thread = new Thread(task, "projseg engine time limit")
      thread.setDaemon(true)
      thread
    })
    made.setRemoveOnCancelPolicy(true)
    made
  }

  /**
   * Returns the reply to a request, or why no process could give one. A request that changes
   * something is sent only once, and so is one that takes longer than its limit.
   */
  def ask(
      python: String, request: JsonNode, isRepeatable: Boolean = true, limitMillis: Option[Long] = None,
      runJob: JsonNode => JsonNode = _ => throw new IllegalStateException("nobody runs jobs"))
      : Either[Refusal, Reply] = {
    // A job may wait for others that ask, so who runs one has no place.
    def outside(job: JsonNode): JsonNode = {
      places.release()
      try runJob(job) finally places.acquireUninterruptibly()
    }
    places.acquire()
    try attempt(python, request, limitMillis, outside) match {
      case Left(Refusal.ofEngine) if isRepeatable => attempt(python, request, limitMillis, outside)
      case found => found
    } finally places.release()
  }

  private def attempt(
      python: String, request: JsonNode, limitMillis: Option[Long], runJob: JsonNode => JsonNode)
      : Either[Refusal, Reply] = {
    var process: EngineProcess = null
    val isLate = new AtomicBoolean()
    var limit: ScheduledFuture[_] = null
    try {
      process = taken(python)
      val asked = process
      // A process that is stopped ends whatever waits for its streams.
      limit = limitMillis.map { millis =>
        val stop: Runnable = () => { isLate.set(true); asked.stop() }
        clock.schedule(stop, millis, TimeUnit.MILLISECONDS)
      }.orNull
      var reply = process.ask(json.writeValueAsBytes(request))
      while (reply.job.isDefined) reply = process.ask(json.writeValueAsBytes(runJob(reply.job.get)))
      if (limit == null || limit.cancel(false)) idle.addFirst(process)
      Right(reply)
    } catch {
      case NonFatal(error) =>
        logWarning(s"projseg's engine process failed: $error")
        if (process != null) process.stop()
        Left(if (isLate.get) Refusal.ofTime else Refusal.ofEngine)
      case error: InterruptedException =>
        if (process != null) process.stop()
        throw error
    } finally if (limit != null) limit.cancel(false)
  }

  private def taken(python: String): EngineProcess = {
    var found = idle.pollFirst()
    while (found != null && !(found.python == python && found.isAlive)) {
      found.stop()
      found = idle.pollFirst()
    }
    if (found != null) found else new EngineProcess(python)
  }
}

private class EngineProcess(val python: String) {
  private val process = {
    val builder = new ProcessBuilder(python, "-m", "projseg.spark_engine.engine")
    builder.redirectError(ProcessBuilder.Redirect.INHERIT)
    builder.environment.putIfAbsent("PROJSEG_CACHE_BYTES", "1G")
    builder.start()
  }
  private val requests = new DataOutputStream(process.getOutputStream)
  private val replies = process.getInputStream

  def isAlive: Boolean = process.isAlive

  def ask(request: Array[Byte]): Reply = {
    requests.writeInt(request.length)
    requests.write(request)
    requests.flush()
    val sent = System.nanoTime()
    // A short answer is looked for often, and a long one seldom.
    while (replies.available() == 0 && process.isAlive)
      pause(math.min(20000 + (System.nanoTime() - sent) / 32, 1000000))
    val content = read(ByteBuffer.wrap(read(4)).getInt)
    val rows = read(Math.toIntExact(ByteBuffer.wrap(read(8)).getLong))
    Reply(Engine.json.readTree(new String(content, UTF_8)), rows)
  }

  /** Bytes of a reply. A stream that is waited for cannot be interrupted, so nothing here waits for one. */
  private def read(count: Int): Array[Byte] = {
    val bytes = new Array[Byte](count)
    var position = 0
    while (position < count) {
      val isEnded = !process.isAlive
      val ready = math.min(replies.available(), count - position)
      if (ready > 0) position += replies.read(bytes, position, ready)
      else if (isEnded) throw new EOFException("it ended")
      else pause(50000)
    }
    bytes
  }

  private def pause(nanos: Long): Unit = {
    LockSupport.parkNanos(nanos)
    if (Thread.interrupted()) throw new InterruptedException
  }

  def stop(): Unit = process.destroyForcibly()
}
