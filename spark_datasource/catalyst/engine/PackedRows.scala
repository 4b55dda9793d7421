package org.apache.spark.sql.projseg

import java.io.ByteArrayInputStream
import java.util.Arrays

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.ValueVector
import org.apache.arrow.vector.ipc.ArrowStreamReader

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch, ColumnVector}
import org.apache.spark.unsafe.Platform

/**
 * Rows in Spark's own form, one after the other in few arrays.
 *
 * A plan holds them as one value: each of Spark's rules looks for expressions in every list of a plan, and a task
 * would be sent them one by one.
 */
case class PackedRows(width: Int, blocks: Seq[RowBlock]) {
  val size: Int = blocks.map(_.size).sum
  val byteCount: Long = blocks.map(_.byteCount.toLong).sum

  /** Rows that may be kept. */
  def rows: Iterator[UnsafeRow] = blocks.iterator.flatMap { block =>
    Iterator.range(0, block.size).map(block.point(new UnsafeRow(width), _))
  }

  /** Rows of which each is gone when the next is asked for. */
  def passing: Iterator[UnsafeRow] = {
    val row = new UnsafeRow(width)
    blocks.iterator.flatMap(block => Iterator.range(0, block.size).map(block.point(row, _)))
  }

  /** The same rows in so many parts, none of them empty. */
  def parts(count: Int): Seq[PackedRows] = {
    val most = math.min(count, size)
    (0 until most).map(part => slice((size.toLong * part / most).toInt, (size.toLong * (part + 1) / most).toInt))
  }

  private def slice(start: Int, end: Int): PackedRows = {
    val starts = blocks.scanLeft(0)(_ + _.size)
    PackedRows(width, blocks.zip(starts).map { case (block, first) =>
      block.slice(math.max(start - first, 0), math.min(end - first, block.size))
    }.filter(_.size > 0))
  }
}

/** Rows of which the first is at `ends(0)` and ends at `ends(1)`, and so on. */
class RowBlock(bytes: Array[Byte], ends: Array[Int]) extends Serializable {
  def size: Int = ends.length - 1
  def byteCount: Int = bytes.length

  def point(row: UnsafeRow, index: Int): UnsafeRow = {
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + ends(index), ends(index + 1) - ends(index))
    row
  }

  def slice(start: Int, end: Int): RowBlock =
    if (start == 0 && end == size) this
    else if (start >= end) RowBlock.empty
    else new RowBlock(
      Arrays.copyOfRange(bytes, ends(start), ends(end)),
      Arrays.copyOfRange(ends, start, end + 1).map(_ - ends(start)))

  override def equals(other: Any): Boolean = other match {
    case block: RowBlock => block.isOf(bytes, ends)
    case _ => false
  }
  private def isOf(otherBytes: Array[Byte], otherEnds: Array[Int]): Boolean =
    Arrays.equals(ends, otherEnds) && Arrays.equals(bytes, otherBytes)
  override def hashCode: Int = Arrays.hashCode(ends)
}

object RowBlock {
  val empty = new RowBlock(Array.emptyByteArray, Array(0))
}

object PackedRows {
  private val blockBytes = 1 << 20
  /** Rows for which generating code takes longer than doing without. */
  private val fewRows = 4096

  def of(rows: Iterator[UnsafeRow], width: Int): PackedRows = {
    val blocks = Seq.newBuilder[RowBlock]
    var bytes = new Array[Byte](1 << 12)
    var ends = new Array[Int](1 << 8)
    var count, used = 0
    def close(): Unit = {
      blocks += new RowBlock(Arrays.copyOf(bytes, used), Arrays.copyOf(ends, count + 1))
      count = 0
      used = 0
    }
    while (rows.hasNext) {
      val row = rows.next()
      val end = used + row.getSizeInBytes
      if (end > bytes.length) bytes = Arrays.copyOf(bytes, math.max(end, bytes.length * 2))
      if (count + 1 == ends.length) ends = Arrays.copyOf(ends, ends.length * 2)
      row.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + used)
      used = end
      count += 1
      ends(count) = used
      if (used >= blockBytes) close()
    }
    close()
    PackedRows(width, blocks.result().filter(_.size > 0))
  }

  /** The rows of an Arrow stream, which are of a schema. */
  def ofArrow(stream: Array[Byte], schema: StructType): PackedRows = {
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("projseg answer", 0, Long.MaxValue)
    val reader = new ArrowStreamReader(new ByteArrayInputStream(stream), allocator)
    try {
      val root = reader.getVectorSchemaRoot
      lazy val project = projection(places(schema.map(_.dataType)), root.getRowCount)
      val batches = Iterator.continually(reader.loadNextBatch()).takeWhile(identity).map { _ =>
        val vectors = root.getFieldVectors.toArray.map(one =>
          new ArrowColumnVector(one.asInstanceOf[ValueVector]): ColumnVector)
        new ColumnarBatch(vectors, root.getRowCount)
      }
      of(batches.flatMap(_.rowIterator().asScala.map(project(_))), schema.size)
    } finally {
      reader.close()
      allocator.close()
    }
  }

  /** The values of a row as they are. */
  def places(types: Seq[DataType]): Seq[Expression] =
    types.zipWithIndex.map { case (one, index) => BoundReference(index, one, nullable = true) }

  /** Computes bound expressions for about so many rows. */
  def projection(values: Seq[Expression], rowCount: Int): UnsafeProjection =
    if (rowCount < fewRows && values.forall(one => isPlain(one.dataType)))
      InterpretedUnsafeProjection.createProjection(values)
    else UnsafeProjection.create(values)

  private def isPlain(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType => true
    case StringType | BinaryType | DateType | TimestampType | TimestampNTZType | _: DecimalType => true
    case _ => false
  }
}
