package org.apache.spark.sql.projseg

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Row, SaveMode, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{ResolvedTable, UnresolvedTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{AlterTableCommand, LogicalPlan, TruncateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, Column, Identifier, TableCatalog, TableChange}
import org.apache.spark.sql.connector.expressions.LiteralValue
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.{ExecutedCommandExec, LeafRunnableCommand}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * ALTER TABLE ... ADD | RENAME | DROP | ALTER COLUMN of a table by path, or of Spark's own catalog: the
 * engine changes what is stored, and of the catalog's entry exactly those columns.
 */
case class ChangeColumns(subject: Subject, changes: Seq[TableChange]) extends LeafRunnableCommand {
  override def run(given: SparkSession): Seq[Row] = {
    val session = given.asInstanceOf[ClassicSession]
    subject match {
      case NamedTable(parts) =>
        val entry = session.sessionState.catalog.getTableMetadata(TableIdentifier(parts.last, parts.init.lastOption))
        val before = DeclaredColumns.of(entry)
        val after = ColumnChanges.declared(before, changes)
        SessionEntry.declare(session, entry, after, changed(session, ColumnChanges.of(changes, before), entry))
      case _ =>
        val kept = changes.find(ColumnChanges.isOfEntry)
        kept.foreach(one => throw ProjsegError.unsupported(
          s"${ColumnChanges.words(one)} is kept in the entry of a catalog, and a table by its path has none; name the " +
            "table of a catalog that lies there"))
        changed(session, ColumnChanges.of(changes, new StructType()), entry = null)
    }
    Nil
  }

  /** Makes the changes that concern what is stored; returns the options that declare the table afterwards. */
  private def changed(
      session: ClassicSession, changes: Seq[util.Map[String, Any]], entry: CatalogTable): Map[String, String] =
    if (changes.isEmpty) Map.empty
    else {
      // A declared table that nobody has written to is made first, so that there is one way to change it.
      if (entry != null) EmptyTable.makeUnlessMade(
        session, entry.location.toString, entry.schema, Declaration.optionsOf(entry) ++ Declaration.propertiesOf(entry))
      ChangedEntry.options(session, subject, changes)
    }
}

/** Entries of Spark's own catalog, after changes of what is stored. */
object ChangedEntry {
  /** The options that declare a table, after changes of its columns. */
  def options(session: ClassicSession, subject: Subject, changes: Seq[util.Map[String, Any]]): Map[String, String] =
    Statement("change_columns", subject, Map("changes" -> changes)).run(session)
      .map(row => row.getString(0).toLowerCase -> row.getString(1)).toMap

  /** Gives an entry the columns that its table has, and keeps what it declares of them. */
  def follow(session: ClassicSession, parts: Seq[String]): Unit =
    new SessionTables(session).entry(parts).foreach { entry =>
      val place = new CaseInsensitiveStringMap(util.Map.of("path", entry.location.toString))
      val declared = DeclaredColumns.of(entry)
      val columns = Sources.provider.inferSchema(place).map { stored =>
        declared.find(_.name == stored.name).map { known =>
          if (StoredType.of(known.dataType) == stored.dataType) known else known.copy(dataType = stored.dataType)
        }.getOrElse(stored)
      }
      if (StructType(columns) != declared) SessionEntry.declare(session, entry, StructType(columns),
          options(session, NamedTable(parts), Nil))
    }
}

/** Gives ALTER TABLE of columns and TRUNCATE TABLE the table that lies at a path, which no catalog knows. */
class ResolveChangedPaths(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case command: AlterTableCommand if ColumnChanges.isOne(command) => resolved(command, command.table)
    case command: TruncateTable => resolved(command, command.table)
  }

  private def resolved(command: LogicalPlan, table: LogicalPlan): LogicalPlan = table match {
    case named: UnresolvedTable => named.multipartIdentifier match {
      case ByPath(path) => command.withNewChildren(Seq(at(path, named.multipartIdentifier)))
      case _ => command
    }
    case _ => command
  }

  private def at(path: String, parts: Seq[String]): ResolvedTable = {
    val columns = Sources.provider.inferSchema(new CaseInsensitiveStringMap(util.Map.of("path", path)))
    val catalog = session.asInstanceOf[ClassicSession].sessionState.catalogManager.v2SessionCatalog
    val table = new ProjsegTable(parts.map(SqlText.quoted).mkString("."), path, None, columns, Map.empty)
    ResolvedTable.create(catalog.asInstanceOf[TableCatalog], Identifier.of(parts.init.toArray, parts.last), table)
  }
}

/** Refuses changes of tables that projseg does not make, and of which Spark has no words or others. */
object RefusedChanges extends Rule[LogicalPlan] {
  // Named, as releases before 4.1 have no constraints.
  private val refused = Map(
    "ReplaceColumns" -> ("REPLACE COLUMNS" -> "it would drop every value of the table; use ADD, DROP, RENAME and ALTER COLUMN"),
    "AddConstraint" -> constraints, "AddCheckConstraint" -> constraints, "DropConstraint" -> constraints)

  override def apply(plan: LogicalPlan): LogicalPlan = {
    refused.get(plan.getClass.getSimpleName).filter(_ => plan.exists {
      case ResolvedTable(_, _, table, _) => Table.isProjseg(table)
      case relation: DataSourceV2Relation => Table.isProjseg(relation)
      case _ => false
    }).foreach { case (what, why) => throw ColumnChanges.unsupported(what, why) }
    plan
  }

  private def constraints: (String, String) =
    "constraints of a table" -> "no write would check them; declare NOT NULL, or filter the rows that are written"
}

/** Runs changes of columns of tables in Spark's own catalog, once Spark has checked them. */
object PlanColumnChanges extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case command: AlterTableCommand if ColumnChanges.isOne(command) => command.table match {
      case ResolvedTable(catalog, identifier, table, _) if Table.isProjseg(table) &&
          CatalogV2Util.isSessionCatalog(catalog) =>
        val parts = identifier.namespace.toSeq :+ identifier.name
        val subject = ByPath.unapply(parts).map(AtLocation(_)).getOrElse(NamedTable(parts))
        ExecutedCommandExec(ChangeColumns(subject, command.changes)) :: Nil
      case _ => Nil
    }
    case _ => Nil
  }
}

/** A table without rows, made by a write of none: the source itself reads the options. */
object EmptyTable {
  def make(session: SparkSession, place: String, columns: StructType, options: Map[String, String]): Unit =
    session.createDataFrame(util.List.of[Row](), DeclaredColumns.read(columns)).write.format("projseg")
      .mode(SaveMode.Append).options(options).option("ifExists", "ignore").save(place)

  def makeUnlessMade(session: ClassicSession, place: String, columns: StructType,
      options: Map[String, String]): Unit = {
    val asked = Engine.request("version", Map("location" -> place))
    val found = new Requests(new Settings(session.sessionState.conf)).sent(asked)
    if (found.exists(_.code == "PROJSEG_NOT_A_TABLE")) make(session, place, columns, options)
  }
}
