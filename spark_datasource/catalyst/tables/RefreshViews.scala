package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}
import org.apache.spark.sql.execution.command.{LeafRunnableCommand, RefreshTableCommand}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** REFRESH TABLE of a temporary view, which a frame was given a name by: from then on it reads the newest versions. */
case class RefreshView(view: TableIdentifier) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val catalog = session.asInstanceOf[ClassicSession].sessionState.catalog
    catalog.getRawLocalOrGlobalTempView(view.nameParts).collect { case TemporaryViewRelation(entry, Some(plan)) =>
      catalog.alterTempViewDefinition(view, TemporaryViewRelation(entry, Some(renewed(plan, session))))
    }
    RefreshTableCommand(view).run(session)
  }

  /** The plan with the newest versions of tables, but for those whose version the user named. */
  private def renewed(plan: LogicalPlan, session: SparkSession): LogicalPlan = {
    val requests = new Requests(new Settings(session.asInstanceOf[ClassicSession].sessionState.conf))
    AnalysisHelper.allowInvokingTransformsInAnalyzer {
      plan.transformDownWithSubqueries {
        case relation: DataSourceV2Relation => Table.unapply(relation).filter(_.isPinned).map { table =>
          Table.withOptions(relation, newest(Table.optionsOf(relation), table.location, table.storage, requests))
        }.getOrElse(relation)
        // What stands in a view for a table of a catalog, in releases since 4.2.
        case reference if reference.getClass.getSimpleName == "V2TableReference" =>
          def placed = reference.productIterator.toSeq match {
            case Seq(catalog: TableCatalog, named: Identifier, _*) =>
              catalog.loadTable(named).asInstanceOf[ProjsegTable].location
          }
          reference.makeCopy(reference.productIterator.map {
            case options: CaseInsensitiveStringMap if options.containsKey(Table.Pinned) =>
              val known = options.asCaseSensitiveMap().asScala.toMap
              val location = Option(options.get("path")).getOrElse(placed)
              new CaseInsensitiveStringMap(newest(known, location, Table.storageOf(known), requests).asJava)
            case other => other
          }.map(_.asInstanceOf[AnyRef]).toArray)
      }
    }
  }

  private def newest(
      options: Map[String, String], location: String, storage: Map[String, String],
      requests: Requests): Map[String, String] = {
    val request = Engine.request("version", Map("location" -> location, "storage_options" -> storage))
    val version = requests.reply(request).fold(
      refusal => throw ProjsegError.of(s"the view is as it was, as its table's version is not known: $refusal"),
      _.content.get("version").asText)
    ProjsegTable.without(options, Set("versionAsOf")) + ("versionAsOf" -> version)
  }
}

class RefreshViews(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case RefreshTableCommand(name) if session.asInstanceOf[ClassicSession].sessionState.catalog.isTempView(name) =>
      RefreshView(name)
    case other => other
  }
}
