package org.apache.spark.sql.projseg

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * Names the version of each projseg table that a query reads, when the query is analysed.
 *
 * Whatever part of the query is planned later, and from whatever source, then reads the same rows.
 */
class PinVersions extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val replies = collection.mutable.Map[String, Either[Refusal, Reply]]()
    val requests = new Requests(new Settings(conf))
    plan.resolveOperators {
      case relation: DataSourceV2Relation =>
        relation match {
          case Table(table) if table.version.isDefined => PinVersions.withOwnSource(relation, table.version.get)
          case Table(table) =>
            replies.getOrElseUpdate(table.location, requests.sent(requests.of("version", table))) match {
              case Right(reply) if reply.error.isEmpty => pinned(relation, reply.content)
              // A table of the catalog that nobody has written to yet.
              case Right(reply) if relation.identifier.isDefined && reply.code == "PROJSEG_NOT_A_TABLE" =>
                LocalRelation(relation.output, Nil)
              case _ => relation
            }
          case _ => relation
        }
    }
  }

  private def pinned(relation: DataSourceV2Relation, newest: JsonNode): LogicalPlan = {
    val version = newest.get("version").asLong
    val pin = Map("versionAsOf" -> version.toString, Table.Pinned -> Table.pinOf(newest))
    PinVersions.withOwnSource(Table.withOptions(relation, Table.optionsOf(relation) ++ pin), version)
  }
}

private object PinVersions {
  /** The versions at which sources were first read. */
  private val first: java.util.Map[connector.catalog.Table, Long] =
    java.util.Collections.synchronizedMap(new java.util.WeakHashMap[connector.catalog.Table, Long])

  /**
   * A relation whose source reads this version: Spark keeps the reader of the first scan on a source, and gives
   * that of what is cached to later statements.
   */
  def withOwnSource(relation: DataSourceV2Relation, version: Long): DataSourceV2Relation = relation.table match {
    case _: ProjsegTable => relation
    case source if first.computeIfAbsent(source, _ => version) == version => relation
    case _ => relation.copy(table = Sources.table(
      StructType(relation.output.map(one => StructField(one.name, one.dataType, one.nullable))), java.util.Map.of()))
  }
}
