package org.apache.spark.sql.projseg

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogV2Util, V1Table}

/**
 * Gives statements about tables of Spark's own catalog what the catalog knows of them: provider,
 * location, properties.
 */
class DescribeCatalogTables(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.resolveOperators {
      case named: ResolvedTable
          if Table.isProjseg(named.table) && CatalogV2Util.isSessionCatalog(named.catalog) &&
            !named.table.isInstanceOf[ProjsegTable] =>
        val identifier = TableIdentifier(named.identifier.name, named.identifier.namespace.headOption)
        val entry = session.asInstanceOf[ClassicSession].sessionState.catalog.getTableMetadata(identifier)
        val known = V1Table.addV2TableProperties(entry)
        named.copy(table = new ProjsegTable(
          entry.identifier.quotedString, entry.location.toString, None, DeclaredColumns.of(entry), known))
    }
}
