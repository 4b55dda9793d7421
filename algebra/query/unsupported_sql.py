"""What SQL may say that projseg does not answer: each has a name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.errors import InvalidInputError, UnsupportedFeatureError, did_you_mean

_SHOWN: Final = 40  # characters of a text in a message
_DEPTH_MAX: Final = 32
"""So deep SELECTs may be nested."""
_REMEDY: Final = (
    "projseg answers one SELECT over one table or over another SELECT; do the rest in DuckDB, "
    "Polars or Spark, which read the answer or the table itself"
)
_OTHER_TABLES: Final = (
    "give the tables that are joined, as projseg.sql(text, tables) takes them, for a star; other "
    "joins are for DuckDB, Polars or Spark, which read the table itself"
)
_EXISTS: Final = "write EXISTS as LEFT SEMI JOIN and NOT EXISTS as LEFT ANTI JOIN"
_INSTEAD: Final = {
    **{
        verb: f"write Table.{verb.lower()}(...) in Python, `projseg {verb.lower()}` in the shell, "
        "or the statement in Spark SQL"
        for verb in ("DELETE", "UPDATE", "MERGE", "TRUNCATE", "VACUUM")
    },
    "INSERT": "write Table.append(rows) in Python, `projseg import` in the shell, or the statement "
    "in Spark SQL",
    "OPTIMIZE": "write Table.compact() in Python or `projseg compact` in the shell",
    "CREATE": "write Table.create(...) or Table.create_view(...) in Python, or `projseg "
    "create-view` in the shell",
    "ALTER": "write Table.add_column, rename_column or drop_column in Python, or `projseg "
    "add-column` and its like in the shell",
    "DROP": "drop a table in the catalog or remove its folder; of views, write Table.view(name)"
    ".drop() or `projseg drop-view`",
    "SUMMARIZE": "write SELECT count(*), min(x), max(x) FROM t; `projseg describe` shows a table",
}
"""What does a statement's work, by its first word."""
_BEGINNINGS: Final = (TokenType.SELECT, TokenType.FROM, TokenType.WITH)
_CLAUSES: Final = (
    TokenType.SELECT,
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.OFFSET,
)
_UNSUPPORTED: Final = {
    TokenType.WITH: "WITH within a SELECT",
    TokenType.UNION: "UNION",
    TokenType.INTERSECT: "INTERSECT",
    TokenType.EXCEPT: "EXCEPT or MINUS between two queries",
    TokenType.SEMICOLON: "a second statement",
    TokenType.QUALIFY: "QUALIFY",
    TokenType.CLUSTER_BY: "CLUSTER BY",
    TokenType.DISTRIBUTE_BY: "DISTRIBUTE BY",
    TokenType.SORT_BY: "SORT BY",
    TokenType.WINDOW: "a WINDOW clause",
    TokenType.LATERAL: "LATERAL VIEW or a lateral join",
    TokenType.PIVOT: "PIVOT",
    TokenType.UNPIVOT: "UNPIVOT",
    TokenType.TABLE_SAMPLE: "TABLESAMPLE",
}
_MAYBE_NAMES: Final = (TokenType.WINDOW, TokenType.PIVOT, TokenType.UNPIVOT)
"""Words that are names of columns or functions elsewhere."""
_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


def bad_sql(problem: str, token: Token | None = None) -> InvalidInputError:
    """Return the error of SQL that is not written as SQL has it."""
    where = "" if token is None else f", at character {token.start + 1}"
    return InvalidInputError("PROJSEG_BAD_SQL", f"{problem}{where}")


def unsupported(sql: str, start: int, what: str, remedy: str = _REMEDY) -> UnsupportedFeatureError:
    """Return the error of SQL that has something beyond one SELECT over one table, at a place."""
    rest = " ".join(sql[start:].split())
    shown = rest if len(rest) <= _SHOWN else f"{rest[:_SHOWN]}..."
    return UnsupportedFeatureError(
        "PROJSEG_UNSUPPORTED_SQL",
        f"SQL has {what} at character {start + 1}, '{shown}'; {remedy}",
    )


def check_supported(sql: str, tokens: Sequence[Token], *, with_joins: bool) -> None:
    """Refuse what is more than SELECTs over one table or each other, at the token that begins it.

    Joins, and SELECTs in IN, are refused unless they are allowed for.
    """
    if tokens[0].token_type not in _BEGINNINGS:
        what = "a statement that does not begin with SELECT"
        word = tokens[0].text.upper()
        near = did_you_mean(word, ["SELECT", "FROM", "WITH"], 0.75)
        remedy = _INSTEAD.get(word, f"{_REMEDY}{near}")
        raise unsupported(sql, tokens[0].start, what, remedy)
    _Scan(sql, tokens, with_joins).check()


class _Level:
    """A SELECT that the scan is in, or an expression in brackets."""

    def __init__(self, first: Token | None) -> None:
        self.is_select = first is not None
        self.names_others = first is not None and first.token_type == TokenType.WITH
        self.clauses: list[Token] = []


class _Scan:
    """One pass over a statement's tokens, with the brackets that are open."""

    def __init__(self, sql: str, tokens: Sequence[Token], with_joins: bool) -> None:
        self._sql, self._tokens, self._with_joins = sql, tokens, with_joins
        self._levels = [_Level(tokens[0])]

    def check(self) -> None:
        """Refuse what is not supported."""
        for place, token in enumerate(self._tokens):
            kind = token.token_type
            if kind in _OPENING:
                self._open(place)
            elif kind in _CLOSING and len(self._levels) > 1:
                self._close(self._levels.pop())
            else:
                self._refuse(place)
                if self._levels[-1].is_select:
                    self._follow(place)
        self._close(self._levels[0])

    def _kind(self, place: int) -> TokenType | None:
        is_there = 0 <= place < len(self._tokens)
        return self._tokens[place].token_type if is_there else None

    def _open(self, place: int) -> None:
        level = self._levels[-1]
        is_select = self._kind(place + 1) in _BEGINNINGS
        if level.names_others and not is_select:
            what = "something other than a SELECT after WITH"
            raise unsupported(self._sql, self._tokens[place].start, what)
        before = self._kind(place - 1)
        if before == TokenType.FROM and level.is_select and not is_select:
            raise unsupported(self._sql, self._tokens[place].start, "brackets in FROM")
        is_known = level.names_others or before == TokenType.FROM
        is_known = is_known or (before == TokenType.IN and self._with_joins)
        self._levels.append(_Level(self._tokens[place + 1] if is_select and is_known else None))
        if sum(one.is_select for one in self._levels) > _DEPTH_MAX + 1:
            what = f"subqueries nested deeper than {_DEPTH_MAX}"
            raise unsupported(self._sql, self._tokens[place].start, what)

    @staticmethod
    def _close(level: _Level) -> None:
        kinds = [clause.token_type for clause in level.clauses]
        if level.is_select and kinds and TokenType.SELECT not in kinds:
            raise bad_sql("a statement without SELECT; write SELECT ... FROM t")

    def _follow(self, place: int) -> None:
        """Check the order of a SELECT's clauses."""
        level, token = self._levels[-1], self._tokens[place]
        kind, before = token.token_type, self._kind(place - 1)
        if kind == TokenType.COMMA and level.clauses[-1:] and _is(level.clauses[-1], "LIMIT"):
            raise bad_sql("LIMIT has more than one count of rows", token)
        is_clause = kind in _CLAUSES and before != TokenType.DISTINCT
        word = token.text.upper()
        ends = (*_CLAUSES, *_CLOSING, None)
        is_as = kind == TokenType.ALIAS and before != TokenType.ALIAS and not level.names_others
        if is_as and self._kind(place + 1) in (*ends, TokenType.COMMA, TokenType.ON):
            raise bad_sql("no name follows AS; write one, `as` in backticks if it is that", token)
        is_of_select = before == TokenType.SELECT and kind in (TokenType.DISTINCT, TokenType.ALL)
        is_followed = self._kind(place + 1) not in ends
        if (is_clause or kind == TokenType.ON or is_of_select) and not is_followed:
            raise bad_sql(f"nothing follows {word}", token)
        if not is_clause:
            return
        level.names_others = False
        known = [clause.token_type for clause in level.clauses]
        if kind in known:
            raise bad_sql(f"{word} stands twice", token)
        latest = max(map(_CLAUSES.index, known), default=-1)
        if _CLAUSES.index(kind) < latest and (kind, known) != (TokenType.SELECT, [TokenType.FROM]):
            raise bad_sql(f"{word} stands after a clause that follows it in SQL", token)
        level.clauses.append(token)

    def _refuse(self, place: int) -> None:
        token = self._tokens[place]
        what = self._inside(place)
        if what is None and self._levels[-1].is_select:
            is_pipe = self._sql.startswith("|>", token.start)
            what = "a pipe (|>)" if is_pipe else self._outside(place)
        if what is not None:
            raise unsupported(self._sql, token.start, what, self._remedy(place, what))

    def _remedy(self, place: int, what: str) -> str:
        if what == "a join":
            return _OTHER_TABLES
        is_of_exists = self._kind(place - 2) == TokenType.EXISTS and self._with_joins
        return _EXISTS if is_of_exists and what == "a subquery" else _REMEDY

    def _inside(self, place: int) -> str | None:
        """Return what a token begins that may stand in brackets, too."""
        token, before = self._tokens[place], self._kind(place - 1)
        level = self._levels[-1]
        if token.token_type == TokenType.SELECT:
            is_first = level.is_select and not any(_is(one, "SELECT") for one in level.clauses)
            if not is_first:
                return "a subquery" if before == TokenType.L_PAREN else "a second SELECT"
        is_call = before in (TokenType.R_PAREN, TokenType.VAR)
        if token.text.upper() == "OVER" and is_call and self._kind(place + 1) is not None:
            return "a window function (OVER)"
        if token.token_type == TokenType.PARAMETER:
            return "a variable; parameters are written :name or ?"
        return None

    def _outside(self, place: int) -> str | None:
        """Return what a token outside of an expression's brackets begins."""
        token, before = self._tokens[place], self._kind(place - 1)
        kind, after = token.token_type, [self._kind(place + 1), self._kind(place + 2)]
        level = self._levels[-1]
        if kind == TokenType.WITH and (after[0] in (TokenType.ROLLUP, TokenType.CUBE)):
            return None
        if level.names_others:
            is_recursive = token.text.upper() == "RECURSIVE" and before == TokenType.WITH
            is_name = after[0] in (TokenType.ALIAS, TokenType.L_PAREN)
            return "WITH RECURSIVE" if is_recursive and not is_name else None
        if before == TokenType.STAR and kind == TokenType.EXCEPT:
            return None
        in_from = bool(level.clauses) and _is(level.clauses[-1], "FROM")
        if in_from and not self._with_joins and kind in (TokenType.JOIN, TokenType.COMMA):
            return "a join"
        if kind in _MAYBE_NAMES:
            is_clause = (
                after == [TokenType.VAR, TokenType.ALIAS]
                if kind == TokenType.WINDOW
                else before not in (TokenType.SELECT, TokenType.COMMA)
            )
            return _UNSUPPORTED[kind] if is_clause else None
        return _UNSUPPORTED.get(kind)


def _is(clause: Token, word: str) -> bool:
    return clause.token_type == TokenType[word]
