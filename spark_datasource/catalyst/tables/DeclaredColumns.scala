package org.apache.spark.sql.projseg

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.types.{DataType, MetadataBuilder, StringType, StructField, StructType}

/**
 * What a catalog says of columns beyond what is stored: collations, CHAR and VARCHAR, NOT NULL, defaults
 * and comments. These are claims about the rows that are written by the table's name.
 */
object DeclaredColumns {
  /** Names the property in which a table of a `ProjsegCatalog` keeps what is declared of a column. */
  val Property = "column."

  /** The columns of an entry of Spark's own catalog, with CHAR and VARCHAR as types. */
  def of(entry: CatalogTable): StructType = StructType(entry.schema.map { field =>
    val declared = CharVarcharUtils.getRawType(field.metadata).getOrElse(field.dataType)
    val others = new MetadataBuilder().withMetadata(field.metadata)
      .remove(CharVarcharUtils.CHAR_VARCHAR_TYPE_STRING_METADATA_KEY).build()
    field.copy(dataType = declared, metadata = others)
  })

  /** Columns with texts in place of CHAR and VARCHAR, which their metadata name. */
  def asTexts(columns: StructType): StructType =
    StoredType.inNoSession(CharVarcharUtils.replaceCharVarcharWithStringInSchema(columns))

  /** The same, but in a session that keeps CHAR and VARCHAR as types. */
  def inSession(columns: StructType): StructType = CharVarcharUtils.replaceCharVarcharWithStringInSchema(columns)

  /** Columns as they are read: any may be null, and no text has a length. */
  def read(columns: StructType): StructType = asTexts(columns).asNullable

  /** Whether a type says more than what is stored. */
  def isMoreThanStored(declared: DataType): Boolean = StoredType.of(declared) != declared.asNullable

  /** The properties in which columns are kept. */
  def kept(columns: StructType): Map[String, String] = columns.fields.filter { one =>
    one != StructField(one.name, StoredType.of(one.dataType))
  }.map(one => Property + one.name -> json(one)).toMap

  /**
   * A column as a text; a text of Spark's own order is written in one way, though releases tell it
   * from one without an order.
   */
  private def json(column: StructField): String = {
    val plain = column.dataType.transformRecursively { case text: StringType if text == StringType => StringType }
    StructType(Seq(column.copy(dataType = plain))).json
  }

  /** A stored column with what the properties of its table keep of it, as far as that is of its type. */
  def of(name: String, stored: DataType, properties: Map[String, String]): StructField =
    properties.get(Property + name).map(DataType.fromJson(_).asInstanceOf[StructType].head).map { kept =>
      if (StoredType.of(kept.dataType) == stored) kept.copy(name = name) else kept.copy(name = name, dataType = stored)
    }.getOrElse(StructField(name, stored))
}
