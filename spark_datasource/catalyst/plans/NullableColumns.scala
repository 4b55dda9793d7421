package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeMap, AttributeReference, Expression, OuterReference}
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, DeleteFromTable, LogicalPlan, MergeIntoTable, UpdateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Table => CatalogTable}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/**
 * Lets every column of a projseg table that is read hold nulls, whatever its declaration says: rows
 * come by the table's path too, where nobody checks them against an entry of a catalog.
 *
 * What is written to is left as it is declared, so Spark checks the rows that it stores: the target
 * of an INSERT is no child of it, and those of UPDATE, MERGE and DELETE are left out here.
 */
object NullableColumns extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val targets = plan.collect { case Changed(relation) => relation }
    val read = plan.resolveOperators {
      case relation: DataSourceV2Relation if !targets.exists(_ eq relation) => of(relation)
      case stream: StreamingRelationV2 if Table.isProjseg(stream.table) && isClaimed(stream.output) =>
        stream.copy(table = of(stream.table), output = stream.output.map(nullable))
    }
    if (read.fastEquals(plan)) plan else referring(read)
  }

  /** A relation whose columns may all be null, if it is one of projseg. */
  def of(relation: DataSourceV2Relation): DataSourceV2Relation =
    if (!Table.isProjseg(relation) || !isClaimed(relation.output)) relation
    else relation.copy(table = of(relation.table), output = relation.output.map(nullable))

  private def of(table: CatalogTable): CatalogTable = table match {
    case own: ProjsegTable => own // its reads never believe what it declares
    case other => Sources.table(CatalogV2Util.v2ColumnsToStructType(other.columns).asNullable, other.properties)
  }

  private def nullable(column: AttributeReference): AttributeReference =
    column.copy(dataType = column.dataType.asNullable, nullable = true)(column.exprId, column.qualifier)

  private def isClaimed(columns: Seq[Attribute]): Boolean =
    columns.exists(one => !one.nullable || one.dataType != one.dataType.asNullable)

  /** The relation whose rows a statement changes. */
  private object Changed {
    def unapply(plan: LogicalPlan): Option[LogicalPlan] = plan match {
      case update: UpdateTable => Some(EliminateSubqueryAliases(update.table))
      case merge: MergeIntoTable => Some(EliminateSubqueryAliases(merge.targetTable))
      case delete: DeleteFromTable => Some(EliminateSubqueryAliases(delete.table))
      case _ => None
    }
  }

  /** The plan with references to columns that are as the plans below have them. */
  private def referring(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case node if node.children.nonEmpty && node.childrenResolved =>
      val known = AttributeMap(node.children.flatMap(_.output).map(column => column -> column))
      node.transformExpressions(referringTo(known))
  }

  private def referringTo(known: AttributeMap[Attribute]): PartialFunction[Expression, Expression] = {
    case column: AttributeReference => known.get(column).map { found =>
      column.copy(dataType = found.dataType, nullable = found.nullable)(column.exprId, column.qualifier)
    }.getOrElse(column)
    case query: SubqueryExpression if query.plan.resolved =>
      query.withNewPlan(AnalysisHelper.allowInvokingTransformsInAnalyzer(query.plan.transformAllExpressions {
        case OuterReference(column) => OuterReference(known.getOrElse(column.toAttribute, column.toAttribute))
      }))
  }
}
