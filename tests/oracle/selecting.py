"""Slow, obvious twins of `kernels.select`, `kernels.gather` and `aggregation.filter_rows`."""


def rows_with_allowed_id(ids, allowed):
    """The positions of the ids that are allowed."""
    return [row for row, one in enumerate(ids) if allowed[one]]


def gather_text(texts, ids):
    """The texts of the ids, one after the other."""
    return b"".join(texts[one] for one in ids)
