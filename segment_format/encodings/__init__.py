"""The encodings of integers, floats, texts and nested values; `encoding_table` lists them all.

Integers are packed, or coded as sequences; values of fixed width may stay as they are.
"""
