package org.apache.spark.sql.projseg

import java.time.Instant
import java.time.temporal.ChronoUnit

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{AsOfTimestamp, AsOfVersion, RelationTimeTravel, TimeTravelSpec}
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.analysis.{UnresolvedLeafNode, UnresolvedRelation, UnresolvedTable, UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.expressions.{Expression, SubqueryExpression}
import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, LogicalPlan, MergeIntoTable, SubqueryAlias, V2WriteCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Resolves what Spark itself refuses of a Python source: older versions of tables of its own
 * catalog by name, tables by path, as projseg.`/path`, and those by name where another catalog stands in its
 * place.
 *
 * It has to come before Spark's own look-up of relations, which raises.
 */
class ResolveByPathAndVersion(session: SparkSession) extends Rule[LogicalPlan] {
  private lazy val tables = new SessionTables(session.asInstanceOf[ClassicSession])
  private lazy val definitions = new DefinedRelations(session.asInstanceOf[ClassicSession])
  private lazy val targets = new Targets(session.asInstanceOf[ClassicSession], tables)

  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.resolveOperatorsUp {
      case travel @ RelationTimeTravel(Named(named), timestamp, version) if ofOptions(named).isEmpty =>
        if (timestamp.forall(isKnown)) {
          val asked = TimeTravelSpec.create(timestamp, version, conf.sessionLocalTimeZone)
          resolved(named, asked).getOrElse(travel)
        } else named.multipartIdentifier match {
          case ByPath(_) => travel.copy(relation = Deferred(named))
          case _ => travel
        }
      case function: UnresolvedTableValuedFunction =>
        definitions.ofFunction(function.name, function.functionArgs).getOrElse(function)
      case named: UnresolvedRelation if isWritten(named) => changed(named).getOrElse(named)
      case named: UnresolvedRelation if !named.isStreaming => resolved(named, ofOptions(named)).getOrElse(named)
      case named: UnresolvedRelation => definitions.stream(named).getOrElse(named)
      case MergeIntoTable(Target(_), _, _, _, _, _, true) =>
        throw ProjsegError.unsupported(
            "projseg does not merge WITH SCHEMA EVOLUTION; add columns by ALTER TABLE first, and leave it out")
      case insert: InsertIntoStatement =>
        target(insert.table).map(found => insert.copy(table = found)).getOrElse(insert)
      case write: V2WriteCommand => target(write.table).map(write.withNewTable).getOrElse(write)
      case named: UnresolvedTable if tables.isReplaced =>
        tables.entry(named.multipartIdentifier).map(tables.resolved).getOrElse(named)
      case named: UnresolvedTableOrView if tables.isReplaced =>
        tables.entry(named.multipartIdentifier).map(tables.resolved).getOrElse(named)
    }

  /** Whether it is the target of DELETE, UPDATE or MERGE: those of other writes are no children of them. */
  private def isWritten(named: UnresolvedRelation): Boolean =
    named.options.containsKey(UnresolvedRelation.REQUIRED_WRITE_PRIVILEGES)

  /** A target whose rows can be changed, in place of the table that Spark would find. */
  private def changed(named: UnresolvedRelation): Option[LogicalPlan] = named.multipartIdentifier match {
    case ByPath(path) =>
      val found = relation(path, named, None)
      Some(found.copy(table = new ChangedTable(path, path, found.schema, Table.optionsOf(found))))
    case parts => targets.of(parts)
  }

  private def isKnown(timestamp: Expression): Boolean =
    timestamp.resolved && !SubqueryExpression.hasSubquery(timestamp)

  private def ofOptions(named: UnresolvedRelation): Option[TimeTravelSpec] =
    TimeTravelSpec.fromOptions(
      named.options, conf.getConf(SQLConf.TIME_TRAVEL_TIMESTAMP_KEY), conf.getConf(SQLConf.TIME_TRAVEL_VERSION_KEY),
      conf.sessionLocalTimeZone)

  private def resolved(named: UnresolvedRelation, asked: Option[TimeTravelSpec]): Option[LogicalPlan] =
    named.multipartIdentifier match {
      case ByPath(path) => Some(relation(path, named, asked))
      case parts if asked.isDefined || tables.isReplaced => tables.entry(parts).map { found =>
        val read =
          if (asked.isDefined) relation(found.location.toString, named, asked)
          else tables.relation(found, named.clearWritePrivileges.options)
        SubqueryAlias(found.identifier.nameParts, read)
      }.orElse(definitions.of(parts, optionsOf(named), asked))
      case parts => definitions.of(parts, optionsOf(named), None)
    }

  private def target(table: LogicalPlan): Option[DataSourceV2Relation] = table match {
    case named: UnresolvedRelation => named.multipartIdentifier match {
      case ByPath(path) =>
        val place = Map("path" -> path)
        Some(relation(place, optionsOf(named) ++ place))
      case parts if tables.isReplaced =>
        tables.entry(parts).map(tables.relation(_, named.clearWritePrivileges.options))
      case _ => None
    }
    case _ => None
  }

  /** A relation whose version is named. */
  private object Named {
    def unapply(plan: LogicalPlan): Option[UnresolvedRelation] = plan match {
      case named: UnresolvedRelation => Some(named)
      case Deferred(named) => Some(named)
      case _ => None
    }
  }

  /** A relation to read: its columns are those of the version. */
  private def relation(path: String, named: UnresolvedRelation, asked: Option[TimeTravelSpec]): DataSourceV2Relation = {
    val versionKeys = Seq(SQLConf.TIME_TRAVEL_TIMESTAMP_KEY, SQLConf.TIME_TRAVEL_VERSION_KEY).map(conf.getConf(_))
    val others = optionsOf(named).filterNot { case (name, _) => versionKeys.exists(_.equalsIgnoreCase(name)) }
    val version = asked.map {
      case AsOfVersion(version) => "versionAsOf" -> version
      case AsOfTimestamp(micros) => versionAt(path, micros)
      case other => throw new UnsupportedOperationException(s"projseg does not know the version $other")
    }
    val options = others + ("path" -> path) ++ version
    relation(options, options)
  }

  /** Each relation has a source of its own, as Spark keeps the reader of the first scan on it. */
  private def relation(source: Map[String, String], options: Map[String, String]): DataSourceV2Relation = {
    def insensitive(given: Map[String, String]) = new CaseInsensitiveStringMap(given.asJava)
    val provider = Sources.provider
    val table = provider.getTable(provider.inferSchema(insensitive(source)), Array.empty, source.asJava)
    DataSourceV2Relation.create(table, None, None, insensitive(options))
  }

  private def optionsOf(named: UnresolvedRelation): Map[String, String] =
    named.clearWritePrivileges.options.asCaseSensitiveMap().asScala.toMap

  /** The version as an option, or the instant, for which the source has the words if there is no version. */
  private def versionAt(path: String, micros: Long): (String, String) = {
    val request = Engine.request("version", Map("location" -> path, "timestamp_us" -> micros))
    new Requests(new Settings(conf)).reply(request) match {
      case Right(reply) => "versionAsOf" -> reply.content.get("version").asText
      case Left(_) => "timestampAsOf" -> Instant.EPOCH.plus(micros, ChronoUnit.MICROS).toString
    }
  }
}

/** A table by path until the instant of its version is known; Spark would look for files there. */
private case class Deferred(named: UnresolvedRelation) extends UnresolvedLeafNode
