package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.plans.CteIdNormalizer
import org.apache.spark.sql.catalyst.plans.logical.{CTERelationDef, CTERelationRef, LogicalPlan}

/** Spark 4.0 and 4.1.0 number one CTE at a time. */
private[projseg] object NumberedCtes {
  def apply(plan: LogicalPlan): LogicalPlan = {
    val numbers = new CteIdNormalizer
    plan.transformDownWithSubqueries {
      case one: CTERelationDef => numbers.normalizeDef(one)
      case one: CTERelationRef => numbers.normalizeRef(one)
    }
  }
}
