package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{ComputeCurrentTime, ConstantFolding, ReplaceExpressions}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.RowDeltaUtils.{DELETE_OPERATION, INSERT_OPERATION, OPERATION_COLUMN}
import org.apache.spark.sql.connector.write.{RowLevelOperation, RowLevelOperationTable}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{IntegerType, LongType, StructField, StructType}

/**
 * DELETE FROM, UPDATE, MERGE INTO, INSERT INTO … REPLACE WHERE and TRUNCATE TABLE of projseg tables, each one
 * commit. Spark writes all but the last as rows with a number, an operation and values; `RowChange` runs that.
 */
class ChangeRows extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    // What is wrong with a statement is Spark's to say.
    if (!plan.resolved) plan
    else plan match {
      case WithCTE(inner, definitions) => changed(inner).map { found =>
        found.copy(query = WithCTE(found.query, definitions), quick = None)
      }.getOrElse(plan)
      case TruncateTable(found: ResolvedTable) if Table.isProjseg(found.table) =>
        val subject = found.table match {
          case own: ProjsegTable => AtLocation(own.location)
          case _ => NamedTable((found.catalog.name +: found.identifier.namespace.toSeq) :+ found.identifier.name)
        }
        Statement("truncate", subject, Map.empty, isLimited = true)
      case _ => changed(plan).getOrElse(plan)
    }

  private def changed(plan: LogicalPlan): Option[RowChange] = asRows(plan) match {
    case delta: WriteDelta => delta.table match {
      case relation: DataSourceV2Relation => relation.table match {
        case RowLevelOperationTable(target: ChangedTable, operation) => Some(ofRows(delta, target, operation.command))
        case _ => None
      }
      case _ => None
    }
    case write: OverwriteByExpression if write.deleteExpr != Literal.TrueLiteral => replacing(write)
    // A MERGE that only inserts: rows of its source without a match.
    case write: V2WriteCommand => Target.unapply(write.table).map { relation =>
      val query = Project(added(write.query.output, Literal(INSERT_OPERATION)), write.query)
      RowChange(
        relation.table.asInstanceOf[ChangedTable], "merge", Map.empty, query, None, dependsOnAll = true,
        ChangeRows.Affected +: ChangeRows.parts)
    }
    case _ => None
  }

  private def ofRows(delta: WriteDelta, target: ChangedTable, command: RowLevelOperation.Command): RowChange = {
    val asked = Map("filter" -> delta.condition.sql.take(ChangeRows.conditionCharactersMax))
    command match {
      case RowLevelOperation.Command.DELETE =>
        val byEngine = quick(target, delta.condition)
        RowChange(target, "delete", asked, delta.query, byEngine, dependsOnAll = false, Seq(ChangeRows.Affected))
      case RowLevelOperation.Command.UPDATE =>
        RowChange(target, "update", asked, delta.query, None, dependsOnAll = false, Seq(ChangeRows.Affected))
      case RowLevelOperation.Command.MERGE =>
        // A key that others added meanwhile would be added twice.
        RowChange(target, "merge", asked, delta.query, None, dependsOnAll = true,
            ChangeRows.Affected +: ChangeRows.parts)
    }
  }

  /** The statement as a change of numbered rows, where this release of Spark has not made it one yet. */
  private def asRows(plan: LogicalPlan): LogicalPlan = plan match {
    case _: DeleteFromTable | _: UpdateTable | _: MergeIntoTable =>
      RewriteMergeIntoTable(RewriteUpdateTable(RewriteDeleteFromTable(unpadded(plan))))
    case other => other
  }

  /** The statement over its bare target, which is its first child, where Spark pads CHAR columns of that. */
  private def unpadded(command: LogicalPlan): LogicalPlan = command.children.head match {
    case Padded(bare, values) =>
      command.transformExpressions { case one: Attribute => values.getOrElse(one, one) }
        .withNewChildren(bare +: command.children.tail)
    case _ => command
  }

  /** New rows beside the numbers of those that they replace, whose condition new rows fulfil too. */
  private def replacing(write: OverwriteByExpression): Option[RowChange] = write.table match {
    case relation: DataSourceV2Relation if Table.isProjseg(relation) =>
      val known = Table.optionsOfWrite(relation, write.writeOptions)
      known.get("path").map { location =>
        val structure = StructType(relation.output.map(ChangeRows.field))
        val declared = known.filter { case (name, _) => Declaration.isOption(name) || name.startsWith(Table.Storage) }
        val target = new ChangedTable(relation.name, location, structure, declared)
        val table = RowLevelOperationTable(target, new ChangeByNumber(RowLevelOperation.Command.DELETE))
        val number = AttributeReference(ChangedTable.Number, LongType, nullable = false)()
        val read = relation.copy(table = table, output = relation.output :+ number)
        val nulls = relation.output.map(one => Alias(Literal(null, one.dataType), one.name)())
        val old = Project(
          Alias(Literal(DELETE_OPERATION), OPERATION_COLUMN)() +: nulls :+ number, Filter(write.deleteExpr, read))
        val values = AttributeMap(relation.output.zip(write.query.output))
        val isMeant = write.deleteExpr.transform { case one: Attribute => values.getOrElse(one, one) }
        val text = write.deleteExpr.sql
        val refused = RaiseError(Literal(
          s"[PROJSEG_ROWS_OUTSIDE_FILTER] a row does not fulfil $text, the condition of the rows that it was to replace; " +
            "nothing was replaced: keep the rows to it"))
        val kept = If(Coalesce(Seq(isMeant, Literal(false))), Literal(INSERT_OPERATION), Cast(refused, IntegerType))
        val fresh = Project(added(write.query.output, kept), write.query)
        RowChange(
          target, "overwrite", Map("filter" -> text.take(ChangeRows.conditionCharactersMax)), Union(fresh, old), None,
          dependsOnAll = true, Nil)
      }
    case _ => None
  }

  /** Columns of rows that are new, and have no number. */
  private def added(values: Seq[Attribute], operation: Expression): Seq[NamedExpression] =
    Alias(operation, OPERATION_COLUMN)() +: values :+ Alias(Literal(-1L), ChangedTable.Number)()

  /** A condition that the engine may apply, if it has a text that means the same. */
  private def quick(target: ChangedTable, condition: Expression): Option[Map[String, Any]] = {
    val zone = conf.sessionLocalTimeZone
    val asked = Map("timezone" -> zone, "max_bytes" -> new Settings(conf).smallBytes)
    // Spark pads CHAR columns as it reads them.
    val isPadded = condition.references.exists(column => target.padded.contains(column.name))
    if (SubqueryExpression.hasSubquery(condition) || !condition.deterministic || isPadded) None
    else folded(condition) match {
      case Literal.TrueLiteral => Some(asked)
      case Literal(null, _) => Some(asked + ("filter" -> "FALSE"))
      case other =>
        val texts = new SqlTexts(zone, ZoneRules.areShared(new Settings(conf), zone))
        texts.of(other).filterNot(_.mayFail).map(found => asked + ("filter" -> found.text))
    }
  }

  /** The condition with what is constant in it as literals, as the optimizer would write it. */
  private def folded(condition: Expression): Expression = AnalysisHelper.allowInvokingTransformsInAnalyzer {
    val filter: LogicalPlan = Filter(condition, LocalRelation(condition.references.toSeq))
    Seq(ReplaceExpressions, ComputeCurrentTime, ConstantFolding).foldLeft(filter)((left, rule) => rule(left)) match {
      case Filter(found, _) => found
      case _ => condition
    }
  }
}

object ChangeRows {
  /** What these statements return, as Delta's do. */
  val Affected = "num_affected_rows"
  val parts: Seq[String] = Seq("updated", "deleted", "inserted").map(one => s"num_${one}_rows")
  /** The most of a condition that the table's history keeps. */
  private val conditionCharactersMax = 1000

  private def field(column: Attribute) =
    StructField(column.name, column.dataType, column.nullable, column.metadata)
}

/** A target below the projection by which Spark pads its CHAR columns, and the columns as they are padded. */
private object Padded {
  def unapply(plan: LogicalPlan): Option[(LogicalPlan, AttributeMap[Expression])] =
    EliminateSubqueryAliases(plan) match {
    case Project(columns, Target(relation)) =>
      Some(relation -> AttributeMap(columns.collect { case one: Alias => one.toAttribute -> one.child }))
    case _ => None
  }
}
