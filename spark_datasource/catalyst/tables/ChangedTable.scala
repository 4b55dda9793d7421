package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, SubqueryAlias}
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogManager, LookupCatalog, MetadataColumn, SupportsMetadataColumns}
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations
import org.apache.spark.sql.connector.expressions.{FieldReference, NamedReference}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.RowLevelOperation.Command
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{CharType, DataType, LongType, Metadata, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The target of DELETE, UPDATE or MERGE. Spark aligns values with its columns, and finds the rows; each has
 * a number, by which the table can take it out.
 *
 * @param given its columns as they are declared; whether they hold nulls is checked where rows are written
 */
class ChangedTable(title: String, location: String, given: StructType, declared: Map[String, String])
    extends ProjsegTable(title, location, None, ChangedTable.open(given), Map.empty, declared)
    with SupportsRowLevelOperations with SupportsMetadataColumns {

  /** The columns, with the types of CHAR and VARCHAR in their metadata. */
  val stated: StructType = DeclaredColumns.asTexts(given)

  /** Columns that are declared NOT NULL. */
  val withoutNulls: Set[String] = stated.filterNot(_.nullable).map(_.name).toSet

  /** Columns of type CHAR. */
  val padded: Set[String] = stated.filter(one => ChangedTable.isPadded(one.metadata)).map(_.name).toSet

  override def toString: String = title

  override def metadataColumns(): Array[MetadataColumn] = Array(ChangedTable.number)

  override def newRowLevelOperationBuilder(info: RowLevelOperationInfo): RowLevelOperationBuilder =
    () => new ChangeByNumber(info.command)
}

object ChangedTable {
  /** The column of rows' numbers, which are of a version: a segment's position there, and the row's in it. */
  val Number = "__projseg_row"
  /** The option of a read that returns numbers too. */
  val Numbered = "projseg.rownumbers"

  /** Whether Spark pads a column with this metadata, as its type is CHAR or has a part that is. */
  def isPadded(metadata: Metadata): Boolean = CharVarcharUtils.getRawType(metadata).exists(_.existsRecursively {
    case _: CharType => true
    case _ => false
  })

  /** Columns that may be null. Whether parts of values may be, Spark checks as it aligns them. */
  private def open(given: StructType): StructType =
    StructType(DeclaredColumns.inSession(given).map(_.copy(nullable = true)))

  private val number = new MetadataColumn {
    override def name(): String = Number
    override def dataType(): DataType = LongType
    override def isNullable: Boolean = false
  }
}

/** A change that names rows by their numbers. Spark only plans it; `RowChange` runs it. */
private[projseg] class ChangeByNumber(given: Command) extends SupportsDelta {
  override def command(): Command = given
  override def rowId(): Array[NamedReference] = Array(FieldReference(ChangedTable.Number))
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = refused
  override def newWriteBuilder(info: LogicalWriteInfo): DeltaWriteBuilder = refused
  private def refused: Nothing = throw new IllegalStateException("a change of rows is a RowChange")
}

/** A table whose rows can be changed, below its aliases. */
private[projseg] object Target {
  def unapply(plan: LogicalPlan): Option[DataSourceV2Relation] = EliminateSubqueryAliases(plan) match {
    case relation: DataSourceV2Relation if relation.table.isInstanceOf[ChangedTable] => Some(relation)
    case _ => None
  }
}

/** Targets by name, in place of the tables that Spark would find. */
private class Targets(session: ClassicSession, tables: SessionTables) extends LookupCatalog {
  override protected val catalogManager: CatalogManager = session.sessionState.catalogManager

  def of(parts: Seq[String]): Option[LogicalPlan] = tables.entry(parts) match {
    case Some(entry) =>
      val title = entry.identifier.quotedString
      val target = new ChangedTable(title, entry.location.toString, entry.schema, Declaration.optionsOf(entry))
      Some(named(entry.identifier.nameParts, target))
    case None => if (session.sessionState.catalog.isTempView(parts)) None else ofOwnCatalog(parts)
  }

  private def ofOwnCatalog(parts: Seq[String]): Option[LogicalPlan] = parts match {
    case NonSessionCatalogAndIdentifier(catalog: ProjsegCatalog, name) if catalog.tableExists(name) =>
      val found =
        if (catalog.isOfDefinitions) catalog.changeable(name) else catalog.loadTable(name).asInstanceOf[ProjsegTable]
      val target = new ChangedTable(found.name, found.location, found.schema, Map.empty)
      Some(named(catalog.name +: name.namespace.toSeq :+ name.name, target))
    case _ => None
  }

  private def named(parts: Seq[String], table: ChangedTable): LogicalPlan =
    SubqueryAlias(parts, DataSourceV2Relation.create(table, None, None, CaseInsensitiveStringMap.empty))
}
