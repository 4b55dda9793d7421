package org.apache.spark.sql.projseg

import org.apache.spark.api.python.{ChainedPythonFunctions, PythonEvalType}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.v2.python.{PythonDataSourceCreationResult, PythonDataSourceReadInfo, UserDefinedPythonDataSource}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.ArrowPythonRunner
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}

/** What runs a Python function over Arrow's batches, as Spark 4.1 makes it. */
private[projseg] object ArrowRunner {
  /** The session whose workers' logs are kept, if they are. */
  def loggedSession: Option[String] = SparkSession.getActiveSession.collect {
    case session if session.sessionState.conf.pythonWorkerLoggingEnabled => session.sessionUUID
  }

  /** A runner that sends a partition, as Spark's reads do, and receives structs of columns. */
  def apply(
      functions: Seq[(ChainedPythonFunctions, Long)], counts: Map[String, SQLMetric], artifacts: Option[String],
      loggedSession: Option[String]): ArrowPythonRunner = {
    val conf = SQLConf.get
    new ArrowPythonRunner(
      functions, PythonEvalType.SQL_MAP_ARROW_ITER_UDF, Array(Array(0)),
      StructType(Seq(StructField("struct", UserDefinedPythonDataSource.readInputSchema))), conf.sessionLocalTimeZone,
      conf.arrowUseLargeVarTypes, ArrowPythonRunner.getPythonRunnerConfMap(conf), counts, artifacts, loggedSession,
      conf.pythonUDFProfiler)
  }

  def planned(
      python: UserDefinedPythonDataSource, created: PythonDataSourceCreationResult,
      schema: StructType): PythonDataSourceReadInfo =
    python.createReadInfoInPython(created, schema, isStreaming = false)
}
