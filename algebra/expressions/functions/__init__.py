"""The functions, one family in each file: their type rules and their evaluation over arrays.

A function that makes a node raises InvalidInputError for arguments that Spark does not take;
evaluation raises EvaluationError where Spark's ANSI mode does, and TextsTooLargeError for texts
that take too much memory together. Those of times and dates have a folder.
"""
