package org.apache.spark.sql.projseg

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.plans.logical.{AlterTableCommand, LogicalPlan}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Identifier, TableCatalog, TableChange}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.{ExecutedCommandExec, LeafRunnableCommand}

/**
 * ALTER TABLE ... SET | UNSET TBLPROPERTIES of a table of Spark's own catalog: what has an effect is set in the table
 * before the entry says it, or refused.
 */
case class ChangeProperties(catalog: TableCatalog, named: Identifier, changes: Seq[TableChange])
    extends LeafRunnableCommand {
  override def run(given: SparkSession): Seq[Row] = {
    val session = given.asInstanceOf[ClassicSession]
    val entry = session.sessionState.catalog.getTableMetadata(TableIdentifier(named.name, named.namespace.headOption))
    val set = changes.collect { case one: TableChange.SetProperty => one.property -> one.value }.toMap
    val unset = changes.collect { case one: TableChange.RemoveProperty => one.property }
    val before = new SessionDeclaration(entry.properties ++ entry.storage.properties)
    PlannedTable.change(entry.location.toString, DeclaredColumns.of(entry), before, set, unset)
    catalog.alterTable(named, changes: _*)
    Nil
  }
}

object PlanPropertyChanges extends SparkStrategy {
  private val commands = Set("SetTableProperties", "UnsetTableProperties")

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case command: AlterTableCommand if commands.contains(command.getClass.getSimpleName) => command.table match {
      case ResolvedTable(catalog, named, table, _) if Table.isProjseg(table) &&
          CatalogV2Util.isSessionCatalog(catalog) =>
        ExecutedCommandExec(ChangeProperties(catalog, named, command.changes)) :: Nil
      case _ => Nil
    }
    case _ => Nil
  }
}
