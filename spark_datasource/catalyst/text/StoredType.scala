package org.apache.spark.sql.projseg

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * Types as projseg stores them, and their texts, which mean the same in every session: Spark's own
 * `timestamp` is what `spark.sql.timestampType` says.
 */
object StoredType {
  private val ofNoSession = new SQLConf

  /** What is computed with Spark's defaults in place of the session's settings. */
  def inNoSession[T](work: => T): T = SQLConf.withExistingConf(ofNoSession)(work)

  /** The type that the engine names. */
  def of(text: String): DataType = inNoSession(DataType.fromDDL(text))

  /** The columns of what the engine returns. */
  def columns(text: String): StructType = inNoSession(StructType.fromDDL(text))

  /** The type that values of a declared one have in a table: without limits, collations and NOT NULL. */
  def of(declared: DataType): DataType = declared match {
    case _: StringType => StringType // CHAR and VARCHAR too
    case ArrayType(item, _) => ArrayType(of(item))
    case MapType(key, value, _) => MapType(of(key), of(value))
    case StructType(fields) => StructType(fields.map(one => StructField(one.name, of(one.dataType))))
    case other => other
  }

  /** The engine's name of the type that a declared one is stored as. */
  def nameOf(declared: DataType): String = declared match {
    case _: StringType => "string"
    case ArrayType(item, _) => s"array<${nameOf(item)}>"
    case MapType(key, value, _) => s"map<${nameOf(key)},${nameOf(value)}>"
    case StructType(fields) =>
      fields.map(one => s"${SqlText.quoted(one.name)}:${nameOf(one.dataType)}").mkString("struct<", ",", ">")
    case other => other.catalogString
  }
}
