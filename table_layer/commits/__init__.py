"""Commits: new versions, verified, published atomically and rebased on conflict.

A version is opened by number, instant or tag, and restored; its files and footers are checked, and
work may follow a commit.
"""
