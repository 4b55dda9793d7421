package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{ResolvedIdentifier, ResolvedTable}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Identifier, TableCatalog}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.{CreateTableLikeCommand, ExecutedCommandExec, LeafRunnableCommand}
import org.apache.spark.sql.types.StructType

/** CREATE TABLE ... LIKE a table of projseg: the new one has its columns and what it declares, and none of its rows. */
case class CreateLike(
    catalog: TableCatalog, named: Identifier, columns: StructType, properties: Map[String, String], isLenient: Boolean)
    extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    if (!(isLenient && catalog.tableExists(named)))
      catalog.createTable(named, CatalogV2Util.structTypeToV2Columns(columns), Array.empty, properties.asJava)
    Nil
  }
}

class PlanCreateLike(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case like: CreateTableLikeCommand if isOfProjseg(like.provider) => entry(like.sourceTable).map { source =>
      // Spark copies no properties, but these say what the table is.
      ExecutedCommandExec(like.copy(properties = Declaration.optionsOf(source) ++ like.properties)) :: Nil
    }.getOrElse(Nil)
    case Like(ResolvedIdentifier(catalog: TableCatalog, named), LikeSource(columns, options), location, given,
        isLenient)
        if CatalogV2Util.isSessionCatalog(catalog) || catalog.isInstanceOf[ProjsegCatalog] =>
      val place = location.map(TableCatalog.PROP_LOCATION -> _)
      val properties = options ++ given ++ place + (TableCatalog.PROP_PROVIDER -> "projseg")
      ExecutedCommandExec(CreateLike(catalog, named, columns, properties, isLenient)) :: Nil
    case _ => Nil
  }

  private def isOfProjseg(provider: Option[String]): Boolean = provider.forall(_.equalsIgnoreCase("projseg"))

  private def entry(named: TableIdentifier) = {
    val catalog = session.asInstanceOf[ClassicSession].sessionState.catalog
    if (catalog.isTempView(named) || !catalog.tableExists(named)) None
    else Some(catalog.getTableMetadata(named)).filter(Table.isOfProjseg)
  }

  /** What a table of projseg declares: its columns, and the options of the write that makes it. */
  private object LikeSource {
    def unapply(plan: LogicalPlan): Option[(StructType, Map[String, String])] = plan match {
      case ResolvedTable(catalog, named, table, _) if Table.isProjseg(table) &&
          CatalogV2Util.isSessionCatalog(catalog) =>
        entry(TableIdentifier(named.name, named.namespace.headOption))
          .map(found => DeclaredColumns.of(found) -> Declaration.optionsOf(found))
      case ResolvedTable(_, _, table: ProjsegTable, _) =>
        Some(table.structure -> table.properties.asScala.toMap.filter { case (name, _) => Declaration.isOption(name) })
      case _ => None
    }
  }

  /** The statement of releases since 4.2, which others have no class for. */
  private object Like {
    def unapply(plan: LogicalPlan): Option[(LogicalPlan, LogicalPlan, Option[String], Map[String, String], Boolean)] =
      if (plan.getClass.getSimpleName != "CreateTableLike") None
      else plan.productIterator.toSeq match {
        case Seq(name: LogicalPlan, source: LogicalPlan, location, provider, None, properties, isLenient: Boolean)
            if isOfProjseg(provider.asInstanceOf[Option[String]]) =>
          val (place, given) = (location.asInstanceOf[Option[String]], properties.asInstanceOf[Map[String, String]])
          Some((name, source, place, given, isLenient))
        case _ => None
      }
  }
}
