package org.apache.spark.sql.projseg

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.expressions.{AttributeSet, Expression, SubqueryExpression, UserDefinedExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.functions.monotonically_increasing_id

/** Reads the SELECT of a stored result for the engine, and writes its rows as a table. */
class SelectJobs(user: ClassicSession) {
  private case class Refused(code: String, message: String) extends Exception(message)

  /** What is told of the SELECT, and its rows at `target`, if that is given; or why it is none of a view. */
  def run(job: JsonNode): JsonNode = {
    val session = under(job.get("session"))
    session.withActive {
      try {
        val plan = ResultPlan.analysed(session, job.get("select").asText, job.get("tables"))
        check(plan, job.get("tables").asScala.map(_.get("table_id").asText).toSet)
        Option(job.get("target")).filterNot(_.isNull).foreach(target => write(session, plan, target.asText))
        Engine.json.createObjectNode().set[JsonNode]("selected",
            Engine.json.valueToTree[JsonNode](told(session, plan, job.get("tables")).asJava))
      } catch { case Refused(code, message) =>
        val refused = Map("code" -> code, "message" -> message).asJava
        Engine.json.createObjectNode().set[JsonNode]("refused", Engine.json.valueToTree[JsonNode](refused))
      }
    }
  }

  /** A session with the settings under which the SELECT was read first; none yet: the user's. */
  private def under(settings: JsonNode): ClassicSession = {
    val session = user.cloneSession()
    if (settings != null && !settings.isNull) {
      val conf = session.sessionState.conf
      conf.getAllConfs.keys.filter(ResultPlan.isRule).foreach(conf.unsetConf)
      settings.properties().asScala.filter(one => ResultPlan.isOfSelect(one.getKey))
        .foreach(one => conf.setConfString(one.getKey, one.getValue.asText))
    }
    session
  }

  private def told(session: ClassicSession, plan: LogicalPlan, tables: JsonNode): Map[String, Any] = {
    val read = AttributeSet(plan.output ++ plan.collectWithSubqueries { case node => node.references }.flatten)
    val columns =
      ResultPlan.tables(plan).groupMapReduce(_.id.get)(_.relation.output.filter(read.contains).map(_.name).toSet)(
          _ ++ _)
    val byName = tables.properties().asScala.map { one =>
      one.getKey -> columns.getOrElse(one.getValue.get("table_id").asText, Set.empty[String]).toSeq.sorted.asJava
    }
    Map(
      "nomination" -> ResultPlan.nomination(plan).get, "is_ordered" -> isOrdered(plan),
      "session" -> ResultPlan.sessionOf(session.sessionState.conf).asJava, "columns" -> byName.toMap.asJava)
  }

  private def write(session: ClassicSession, plan: LogicalPlan, target: String): Unit = {
    val rows = Dataset.ofRows(session, plan)
    val named = rows.toDF(plan.output.indices.map(index => s"c$index"): _*)
    val numbered = if (isOrdered(plan)) named.withColumn("row", monotonically_increasing_id()) else named
    numbered.write.format("projseg").mode("append").save(target)
  }

  private def isOrdered(plan: LogicalPlan): Boolean = plan match {
    case sort: Sort => sort.global
    case _: Project | _: SubqueryAlias | _: GlobalLimit | _: LocalLimit | _: Offset | _: Filter =>
      isOrdered(plan.children.head)
    case ctes: WithCTE => isOrdered(ctes.plan)
    case _ => false
  }

  /**
   * Refuses a SELECT that is none of a view, or that reads a table beside those of these ids: a
   * store's text is a stranger's.
   */
  private def check(plan: LogicalPlan, listed: Set[String]): Unit = {
    plan.collectWithSubqueries { case node => node }.foreach {
      case Table(table) if table.id.exists(listed.contains) =>
      case Table(table) if table.id.isDefined =>
        throw Refused("PROJSEG_VIEW_TABLE",
            "its SELECT names a table by another way than its view lists: make the view anew")
      case Table(_) =>
        throw Refused("PROJSEG_BAD_VIEW",
            "a view follows the newest versions of its tables: leave VERSION and TIMESTAMP out")
      case _: LocalRelation | _: OneRowRelation | _: Range | _: CTERelationRef =>
      case leaf: LeafNode =>
        throw Refused("PROJSEG_VIEW_TABLE", s"${leaf.simpleString(3)} is not a projseg table, and views are of these")
      case _: Sample =>
        throw Refused("PROJSEG_BAD_VIEW", "a view stores what is the same each time: leave TABLESAMPLE out")
      case node => node.expressions.foreach(_.foreach(check))
    }
    // The engine knows what to offer instead.
    if (isOfRows(plan)) throw Refused("PROJSEG_BAD_VIEW", "")
    plan.output.find(one => StoredType.of(one.dataType) != one.dataType.asNullable).foreach { one =>
      throw Refused("PROJSEG_BAD_VIEW",
          s"column ${one.name} is of type ${one.dataType.sql}, which no table keeps: cast it")
    }
  }

  private def check(expression: Expression): Unit = {
    val isOfInstant =
      expression.containsPattern(CURRENT_LIKE) && !expression.children.exists(_.containsPattern(CURRENT_LIKE))
    val isRandom =
      !expression.deterministic && expression.children.forall(_.deterministic) &&
      !expression.isInstanceOf[AggregateFunction]
    val called = expression match {
      case ofUser: UserDefinedExpression => Some(ofUser.name)
      case other => Option.when(isOfInstant || isRandom)(other.prettyName)
    }
    called.foreach(name => throw Refused(
      "PROJSEG_VIEW_NOT_DETERMINISTIC",
      s"a view stores what is the same whenever it is asked, and its SELECT calls $name: leave it to the queries"))
  }

  private def isOfRows(plan: LogicalPlan): Boolean = plan match {
    case _: Project | _: Filter | _: SubqueryAlias | _: View =>
      !plan.expressions.exists(SubqueryExpression.hasSubquery) && isOfRows(plan.children.head)
    case Table(_) => true
    case _ => false
  }
}
