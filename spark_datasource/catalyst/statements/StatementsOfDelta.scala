package org.apache.spark.sql.projseg

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{UnresolvedRelation, UnresolvedTable, UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Statements about projseg tables that Delta's parser takes, where `spark.sql.extensions` names it after this one.
 *
 * Its plans are known by their names, as projseg is compiled without Delta. What projseg has not, such as
 * ZORDER BY, stays Delta's to refuse.
 */
class StatementsOfDelta(session: SparkSession) extends Rule[LogicalPlan] {
  private lazy val locations = new Locations(session.asInstanceOf[ClassicSession])

  override def apply(plan: LogicalPlan): LogicalPlan = plan.getClass.getSimpleName match {
    case "OptimizeTableCommand" if isEmpty(plan, "userPartitionPredicates") && isEmpty(plan, "zOrderBy") =>
      own(plan, plan, Statement("optimize", _, Map("dry_run" -> false, "purge" -> false)))
    case "VacuumTableCommand" if isEmpty(plan, "inventoryTable") && isEmpty(plan, "inventoryQuery") =>
      val hours = value[Option[Double]](plan, "horizonHours")
      if (hours.exists(!_.isWhole)) plan
      else own(plan, plan, Statement("vacuum", _,
        Map("dry_run" -> value[Boolean](plan, "dryRun"), "force" -> false) ++
          hours.map(one => "retention_hours" -> one.toLong)))
    case "DescribeDeltaHistory" if isEmpty(plan, "limit") => own(plan, plan, Statement("history", _, Map.empty))
    case "RestoreTableStatement" =>
      val travel = value[LogicalPlan](plan, "table")
      val target = value[Option[Any]](travel, "version").map("version" -> _).orElse(
        value[Option[Any]](travel, "timestamp")
          .collect { case Literal(text: UTF8String, _) => "timestamp" -> text.toString })
      target.map(found =>
        own(plan, value[LogicalPlan](travel, "relation"), Statement(Statements.Restore, _, Map(found)))).getOrElse(plan)
    case _ => plan
  }

  private def own(plan: LogicalPlan, named: LogicalPlan, statement: Subject => Statement): LogicalPlan =
    (named +: named.children).collectFirst {
      case table: UnresolvedTable => table.multipartIdentifier
      case table: UnresolvedTableOrView => table.multipartIdentifier
      case table: UnresolvedRelation => table.multipartIdentifier
    }.map(NamedTable(_)).filter(locations.isKnown).map(statement).getOrElse(plan)

  private def isEmpty(plan: LogicalPlan, field: String): Boolean =
    value[IterableOnce[Any]](plan, field).iterator.isEmpty

  private def value[T](plan: LogicalPlan, field: String): T =
    plan.getClass.getMethod(field).invoke(plan).asInstanceOf[T]
}
