package org.apache.spark.sql.projseg

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

/** `spark.sql.extensions=org.apache.spark.sql.projseg.ProjsegExtensions`. */
class ProjsegExtensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    Settings.register()
    extensions.injectHintResolutionRule(session => new StatementsOfDelta(session))
    extensions.injectHintResolutionRule(session => new CreateViews(session))
    extensions.injectHintResolutionRule(session => new ReadOnlyViews(session))
    // Names of versions may be known at once, or only once Spark has resolved an expression.
    extensions.injectHintResolutionRule(session => new ResolveByPathAndVersion(session))
    extensions.injectHintResolutionRule(session => new MergeColumns(session))
    extensions.injectResolutionRule(session => new ResolveByPathAndVersion(session))
    extensions.injectResolutionRule(session => new ResolveChangedPaths(session))
    extensions.injectResolutionRule(_ => NullableColumns)
    extensions.injectPostHocResolutionRule(_ => RefusedChanges)
    extensions.injectPostHocResolutionRule(_ => RefusedViews)
    extensions.injectPostHocResolutionRule(session => new StageTables(session))
    extensions.injectPostHocResolutionRule(session => new BindCatalogTables(session))
    extensions.injectPostHocResolutionRule(session => new BindDefinitions(session))
    extensions.injectPostHocResolutionRule(_ => new ChangeRows)
    extensions.injectPostHocResolutionRule(_ => new ProjectionHints)
    extensions.injectPostHocResolutionRule(session => new DescribeCatalogTables(session))
    extensions.injectPostHocResolutionRule(_ => new PinVersions)
    extensions.injectPostHocResolutionRule(session => new RefreshViews(session))
    extensions.injectPostHocResolutionRule(_ => new RebalanceWrites)
    extensions.injectPostHocResolutionRule(_ => new DeferCompaction)
    extensions.injectColumnar(session => new CompactAfterWrites(session))
    extensions.injectColumnar(session => new FollowMergedColumns(session))
    extensions.injectParser((session, parser) => Statements.parser(session, parser))
    extensions.injectTableFunction(QueryLog.function)
    extensions.injectTableFunction(Advice.function)
    extensions.injectFunction(TimeSeries.function)
    extensions.injectFunction(TextMatch.function)
    extensions.injectFunction(TextMatch.withLimit)
    extensions.injectPlanNormalizationRule(session => new AnswerFromResults(session))
    extensions.injectPlannerStrategy(_ => PlanAnswers)
    extensions.injectPlannerStrategy(_ => PlanColumnChanges)
    extensions.injectPlannerStrategy(_ => PlanPropertyChanges)
    extensions.injectPlannerStrategy(session => new PlanCreateLike(session))
    extensions.injectPreCBORule(session => new AnswerFromProjections(session))
  }
}
