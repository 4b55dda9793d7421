"""Expressions: from Spark SQL text to a typed canonical tree, and its value over Arrow data.

The functions of SQL, the patterns of regular expressions and block programs have folders.
"""
