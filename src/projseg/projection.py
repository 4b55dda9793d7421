"""The declarations of projections and indexes, as a caller writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Projection:
    """A pre-grouped or differently sorted table that every segment written from now on embeds.

    Nothing is checked here: that takes the table's schema. Give `group_by` and `aggregators` for
    groups, `columns` and `order_by` for rows.

    Parameters
    ----------
    name : str
        Its name, for people and for `useProjection`.
    group_by : sequence of str
        Grouping columns as Spark SQL, `"date_trunc('HOUR', time) AS hour"`, in sort order.
    aggregators : sequence of str
        Such as `"sum(added) AS added"`.
    where : str or None
        Only rows where it is true are in the projection.
    columns : sequence of str
        What is kept of every row: Spark SQL, `"*"` for all columns of the table.
    order_by : sequence of str
        What these rows are sorted by, ascending with nulls first: some of `columns`, by their
        aliases or as expressions.
    """

    name: str
    group_by: Sequence[str] = ()
    aggregators: Sequence[str] = ()
    where: str | None = None
    columns: Sequence[str] = ()
    order_by: Sequence[str] = ()


@dataclass(frozen=True)
class Index:
    """An index: it says which segments may hold a value, and never changes an answer.

    Nothing is checked here: that takes the table's schema.

    Parameters
    ----------
    name : str
        Its name in the table, in any case.
    columns : str or sequence of str
        One to eight columns, each indexed by itself.
    kind : str
        `bloom`: equality with values, for columns of many values; `token`: words of texts, for
        `text_match`; `ngram`: parts of texts, for LIKE, ILIKE, `contains` and their like.
    fpp : float
        The share of segments without a value that may be read for it all the same, 0.00001 to 0.1.
    postings : bool or None
        Whether segments store which values hold a word or a part, for `token` and `ngram`; None:
        they do. `bloom` has none.
    """

    name: str
    columns: str | Sequence[str]
    kind: str = "bloom"
    fpp: float = 0.001
    postings: bool | None = None
