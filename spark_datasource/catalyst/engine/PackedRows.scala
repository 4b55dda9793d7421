package org.apache.spark.sql.projseg

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.util.Arrays

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.ValueVector
import org.apache.arrow.vector.ipc.ArrowStreamReader

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.StructType
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

  def of(rows: Iterator[UnsafeRow], width: Int): PackedRows = {
    val blocks = Seq.newBuilder[RowBlock]
    val bytes = new ByteArrayOutputStream()
    val ends = Array.newBuilder[Int]
    ends += 0
    def close(): Unit = {
      blocks += new RowBlock(bytes.toByteArray, ends.result())
      bytes.reset()
      ends.clear()
      ends += 0
    }
    rows.foreach { row =>
      if (bytes.size >= blockBytes) close()
      row.writeToStream(bytes, null)
      ends += bytes.size
    }
    close()
    PackedRows(width, blocks.result())
  }

  /** The rows of an Arrow stream, which are of a schema. */
  def ofArrow(stream: Array[Byte], schema: StructType): PackedRows = {
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("projseg answer", 0, Long.MaxValue)
    val reader = new ArrowStreamReader(new ByteArrayInputStream(stream), allocator)
    try {
      val project = UnsafeProjection.create(schema)
      val root = reader.getVectorSchemaRoot
      val batches = Iterator.continually(reader.loadNextBatch()).takeWhile(identity).map { _ =>
        val columns = root.getFieldVectors.toArray.map(one =>
          new ArrowColumnVector(one.asInstanceOf[ValueVector]): ColumnVector)
        new ColumnarBatch(columns, root.getRowCount)
      }
      of(batches.flatMap(_.rowIterator().asScala.map(project(_))), schema.size)
    } finally {
      reader.close()
      allocator.close()
    }
  }
}
