"""The Spark SQL that does what is advised."""

from __future__ import annotations

from typing import Final

from projseg.algebra.expressions.sql_words import backquoted


def statement_of(kind: str, table: str, name: str, sql: str = "", dropped: str = "") -> str:
    """Return the Spark SQL that does one thing of advice to a table at a location.

    `sql` is what is added; `dropped` is the kind of what is dropped.
    """
    target, name = f"projseg.{backquoted(table)}", backquoted(name)
    if kind == "drop":
        return _DROPS.get(dropped, _DROPS["projection"]).format(target=target, name=name)
    sql = sql.replace(" FROM t GROUP BY ALL", f" FROM {target} GROUP BY ALL")
    return _ADDITIONS[kind].format(target=target, name=name, sql=sql)


_ADDITIONS: Final = {
    "projection": "ALTER TABLE {target} ADD PROJECTION {name} ({sql})",
    "rows": "ALTER TABLE {target} ADD PROJECTION {name} ({sql})",
    "index": "CREATE INDEX {name} ON TABLE {target} {sql}",
    "view": "CREATE MATERIALIZED VIEW {name} AS {sql}",
    "compact": "OPTIMIZE {target}",
}
_DROPS: Final = {
    "projection": "ALTER TABLE {target} DROP PROJECTION {name}",
    "index": "DROP INDEX {name} ON TABLE {target}",
}
