package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.normalizer.NormalizeCTEIds
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** A plan whose CTEs are numbered in their order, as those of an equal plan are. */
private[projseg] object NumberedCtes {
  def apply(plan: LogicalPlan): LogicalPlan = NormalizeCTEIds(plan)
}
