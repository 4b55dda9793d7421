package org.apache.spark.sql.projseg

import java.nio.file.{Files, Path}

import org.apache.arrow.vector.VectorSchemaRoot
import org.apache.arrow.vector.ipc.ArrowStreamWriter

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.ArrowUtils

/**
 * MERGE INTO a projseg table by equal keys: Spark computes the source's rows, and the engine merges
 * them in one commit. What a row gets is one expression for each column, whether it is updated or inserted.
 */
object MergeByKeys extends PredicateHelper {
  def apply(merge: MergeIntoTable, location: String): LogicalPlan = {
    if (merge.notMatchedBySourceActions.nonEmpty) refuse("WHEN NOT MATCHED BY SOURCE")
    if (merge.matchedActions.size > 1 || merge.notMatchedActions.size > 1) refuse("several clauses of a kind")
    val actions = merge.matchedActions ++ merge.notMatchedActions
    if (actions.exists(_.condition.nonEmpty)) refuse("a clause with a condition")
    val keys = splitConjunctivePredicates(merge.mergeCondition).map(key(_, merge))
    val set = merge.matchedActions.collect { case one: UpdateAction => ChangeRows.assigned(one.assignments) }.headOption
    val inserted = merge.notMatchedActions.collect { case one: InsertAction => ChangeRows.assigned(one.assignments) }.headOption
    val keyed = keys.toMap
    if (keyed.size < keys.size) refuse("two conditions on one column")
    if (set.exists(_.exists { case (name, value) => keyed.get(name).exists(!_.semanticEquals(value)) }))
      refuse("an update of a key")
    if (inserted.exists(values => keyed.exists { case (name, key) => !values.get(name).exists(_.semanticEquals(key)) }))
      refuse("an insert without the source's key")
    for { one <- set; other <- inserted } if (!isSame(one ++ keyed, other)) refuse("an update and an insert of different values")
    val columns = (keyed ++ set.getOrElse(Map.empty) ++ inserted.getOrElse(Map.empty)).toSeq.sortBy(_._1)
    val source = Project(columns.map { case (name, value) => Alias(value, name)() }, merge.sourceTable)
    val whenMatched = merge.matchedActions.headOption.map { case _: UpdateAction => "update"; case _ => "delete" }
    MergeCommand(
      location, source, keys.map(_._1), whenMatched.getOrElse("ignore"), if (inserted.isEmpty) "ignore" else "insert")
  }

  private def key(condition: Expression, merge: MergeIntoTable): (String, Expression) = {
    val (target, source) = (merge.targetTable.outputSet, merge.sourceTable.outputSet)
    def pair(one: Expression, other: Expression): Option[(String, Expression)] = one match {
      case column: AttributeReference if target.contains(column) && other.references.subsetOf(source) =>
        Some(column.name -> other)
      case _ => None
    }
    condition match {
      case EqualTo(left, right) => pair(left, right).orElse(pair(right, left)).getOrElse(refuse(s"the condition ${condition.sql}"))
      case _ => refuse(s"the condition ${condition.sql}")
    }
  }

  private def isSame(one: Map[String, Expression], other: Map[String, Expression]): Boolean =
    one.keySet == other.keySet && one.forall { case (name, value) => value.semanticEquals(other(name)) }

  private def refuse(what: String): Nothing = throw Statement.failed(
    s"projseg does not merge with $what; MERGE INTO t USING s ON t.key = s.key takes UPDATE or DELETE and INSERT, " +
      "each once and for all rows, with the same values for updated and inserted rows; else use DELETE, UPDATE and INSERT")
}

/** Merges the rows of `source`, whose columns are columns of the table and hold its keys. */
case class MergeCommand(
    location: String, source: LogicalPlan, keys: Seq[String], whenMatched: String, whenNotMatched: String)
    extends LeafRunnableCommand {
  private val columns = (ChangeRows.returned +: Seq("updated", "deleted", "inserted").map(one => s"num_${one}_rows BIGINT"))
    .mkString(", ")
  override val output: Seq[Attribute] =
    StoredType.columns(columns).map(field => AttributeReference(field.name, field.dataType, field.nullable)())

  override def run(session: SparkSession): Seq[Row] = {
    val frame = Dataset.ofRows(session.asInstanceOf[ClassicSession], source)
    val file = Files.createTempFile("projseg-merge", ".arrow")
    try {
      write(frame.schema, frame.queryExecution.executedPlan.executeToIterator(), file)
      val arguments = Map(
        "data" -> file.toString, "on" -> keys, "when_matched" -> whenMatched, "when_not_matched" -> whenNotMatched)
      Statement("merge", At(location), arguments, columns).run(session)
    } finally Files.deleteIfExists(file)
  }

  private def write(schema: StructType, rows: Iterator[InternalRow], file: Path): Unit = {
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("projseg merge", 0, Long.MaxValue)
    val root = VectorSchemaRoot.create(ArrowUtils.toArrowSchema(schema, "UTC", true, false), allocator)
    val stream = Files.newOutputStream(file)
    try {
      val writer = new ArrowStreamWriter(root, null, stream)
      val columns = ArrowWriter.create(root)
      writer.start()
      rows.grouped(MergeCommand.batchRows).foreach { batch =>
        batch.foreach(columns.write)
        columns.finish()
        writer.writeBatch()
        columns.reset()
      }
      writer.end()
    } finally {
      stream.close()
      root.close()
      allocator.close()
    }
  }
}

object MergeCommand {
  private val batchRows = 10000
}
