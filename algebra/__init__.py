"""The meaning of queries and projections, without bytes and without Spark.

From texts to trees: time, expressions, aggregates, projections and queries; and from trees to
sources: proofs, and the planning that uses them.
"""
