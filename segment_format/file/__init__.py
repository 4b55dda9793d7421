"""Whole segment files: encode, open, copy, describe, search for values, and verify.

Small files are read as a batch; a view gives columns other names. Deletion vectors are files of
their own, postings are parts.
"""
