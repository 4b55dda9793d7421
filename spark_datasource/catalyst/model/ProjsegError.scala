package org.apache.spark.sql.projseg

import java.util

import org.apache.spark.SparkThrowable

/**
 * An error of projseg as one line. Spark shows one with a condition as it is, from tasks too.
 *
 * @param whole the line as Python has it, with the error's class, from which `projseg.write` raises that again
 */
class ProjsegError(line: String, whole: String) extends IllegalArgumentException(line) with SparkThrowable {
  override def getErrorClass: String = getCondition
  override def getCondition: String = "PYTHON_DATA_SOURCE_ERROR"
  override def getSqlState: String = "38000"
  override def getMessageParameters: util.Map[String, String] =
    util.Map.of("action", "use", "type", "projseg", "msg", whole)
}

object ProjsegError {
  /** An error that every client of Spark shows with its message. */
  def of(message: String): ProjsegError = new ProjsegError(message, message)
  def of(code: String, message: String): ProjsegError = of(s"[$code] $message")
  /** An error about a statement that Spark has and projseg has not. */
  def unsupported(message: String): ProjsegError = of("PROJSEG_UNSUPPORTED_STATEMENT", message)
}
