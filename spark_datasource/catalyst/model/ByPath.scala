package org.apache.spark.sql.projseg

import org.apache.spark.sql.internal.SQLConf

/** The path of a name such as projseg.`/path`; no table or namespace of a catalog has a slash in its name. */
object ByPath {
  def unapply(parts: Seq[String]): Option[String] = parts match {
    case Seq(format, path) if format.equalsIgnoreCase("projseg") && path.contains("/") && SQLConf.get.runSQLonFile =>
      Some(path)
    case _ => None
  }
}
