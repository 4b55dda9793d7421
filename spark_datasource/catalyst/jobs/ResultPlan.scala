package org.apache.spark.sql.projseg

import java.math.BigInteger
import java.security.MessageDigest

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, SubqueryExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A table in a plan that is compared: whatever version is read, and from where. */
case class ComparedTable(id: String, columns: Seq[(String, DataType)], output: Seq[Attribute]) extends LeafNode

/** SELECTs of stored results as analysed plans: read, nominated, compared. */
object ResultPlan {
  /** Settings besides zone and ANSI rules that may change what a SELECT means. */
  private val Rules = Seq(
    "ansi.doubleQuotedIdentifiers", "ansi.relationPrecedence", "caseSensitive", "decimalOperations.allowPrecisionLoss",
    "function.concatBinaryAsString", "function.eltOutputAsString", "groupByAliases", "groupByOrdinal",
    "icu.caseMappings.enabled", "mapKeyDedupPolicy", "orderByOrdinal", "parser.escapedStringLiterals",
    "parser.quotedRegexColumnNames", "session.collation.default", "storeAssignmentPolicy", "timestampType")
      .map("spark.sql." + _)
  private val ZoneAndErrors = Set(SQLConf.SESSION_LOCAL_TIMEZONE.key, SQLConf.ANSI_ENABLED.key)
  private val Defaults = new SQLConf()
  private val Legacy = "spark.sql.legacy."

  /** The settings under which a session reads a SELECT. */
  def sessionOf(conf: SQLConf): Map[String, String] =
    conf.getAllConfs.filter { case (key, value) =>
      isRule(key) && !Try(Defaults.getConfString(key)).toOption.contains(value)
    } ++ Map(
      SQLConf.SESSION_LOCAL_TIMEZONE.key -> conf.sessionLocalTimeZone,
      SQLConf.ANSI_ENABLED.key -> conf.ansiEnabled.toString)

  /** Whether `sessionOf` may name a setting: a store's text is a stranger's, and sets no other. */
  def isOfSelect(key: String): Boolean = ZoneAndErrors.contains(key) || isRule(key)

  def isRule(key: String): Boolean = Rules.contains(key) || key.startsWith(Legacy)

  /** The analysed plan of a SELECT over tables by their names in it: location, version, id. */
  def analysed(session: ClassicSession, select: String, tables: JsonNode): LogicalPlan = session.withActive {
    val parser = session.sessionState.sqlParser
    val places =
      tables.properties().asScala.map(one => parser.parseMultipartIdentifier(one.getKey) -> one.getValue).toMap

    def relation(parts: Seq[String]): Option[LogicalPlan] = places.collectFirst {
      case (name, place) if name.size == parts.size &&
          name.zip(parts).forall { case (a, b) => a.equalsIgnoreCase(b) } =>
        val options = Map("versionAsOf" -> place.get("version").asText, Table.Pinned -> place.get("table_id").asText)
        SubqueryAlias(parts, UnresolvedRelation(
          Seq("projseg", place.get("location").asText), new CaseInsensitiveStringMap(options.asJava)))
    }
    def placed(plan: LogicalPlan): LogicalPlan = plan.transformDownWithSubqueries {
      case named: UnresolvedRelation => relation(named.multipartIdentifier).getOrElse(named)
      case ctes: UnresolvedWith => ctes.makeCopy(ctes.productIterator.map(inCtes).map(_.asInstanceOf[AnyRef]).toArray)
    }
    // Releases say more of each cte than its name and plan.
    def inCtes(value: Any): Any = value match {
      case (name, alias: SubqueryAlias) => (name, placed(alias))
      case (name, alias: SubqueryAlias, depth) => (name, placed(alias), depth)
      case list: Seq[_] => list.map(inCtes)
      case other => other
    }
    val execution = session.sessionState.executePlan(placed(parser.parsePlan(select)))
    execution.assertAnalyzed()
    execution.analyzed
  }

  /** The tables of a plan, those of its subqueries among them. */
  def tables(plan: LogicalPlan): Seq[Table] = plan.collectWithSubqueries { case Table(table) => table }

  /**
   * A plan that is equal to that of any SELECT with the same meaning as written; None if a table's
   * version was chosen.
   */
  def compared(plan: LogicalPlan): Option[LogicalPlan] = Option.when(tables(plan).forall(_.id.isDefined)) {
    val plain = plan.transformUpWithSubqueries { case Table(table) =>
      val output = table.relation.output
      ComparedTable(table.id.get, output.map(one => one.name -> one.dataType), output)
    }
    // Columns of grouping sets are qualified by the table's name, which may be any.
    val named =
      plain.transformAllExpressionsWithSubqueries { case one: Alias => Alias(one.child, one.name)(one.exprId) }
    NumberedCtes(named).canonicalized
  }

  /** Hash of a plan's tables and operators, without such as only name columns; None if a table's version was chosen. */
  def nomination(plan: LogicalPlan): Option[String] = {
    val words = operators(plan)
    Option.when(words.forall(_.isDefined)) {
      val digest = MessageDigest.getInstance("MD5").digest(words.flatten.mkString("\n").getBytes("UTF-8"))
      f"${new BigInteger(1, digest)}%032x"
    }
  }

  private def operators(plan: LogicalPlan): Seq[Option[String]] = {
    val own = plan match {
      case Table(table) => Seq(table.id)
      case _: Project | _: SubqueryAlias | _: View => Nil
      case other => Seq(Some(other.nodeName))
    }
    val nested = plan.expressions.flatMap(_.collect { case one: SubqueryExpression => one.plan })
    own ++ (plan.children ++ nested).flatMap(operators)
  }
}
