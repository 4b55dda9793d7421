"""What sqlglot's parser takes and Spark's does not is refused, and where it stops is kept.

sqlglot steps over words that it expects, whether they are there or not, and drops what it does not
need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.algebra.expressions.stopped_parser import StoppedError, problem_of


def closed(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a parser of a call's arguments that refuses those without a closing bracket."""

    def parse_all(parser: Any) -> Any:
        found = parse(parser)
        if not parser._curr or parser._curr.token_type != TokenType.R_PAREN:  # noqa: SLF001
            parser.refuse(") is missing")
        return found

    return parse_all


class StrictParser(Spark.Parser):  # type: ignore[valid-type, misc]  # it is a variable there
    """Spark's parser of sqlglot without its leniences."""

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Stop at a token, in words of SQL as far as sqlglot says what is missing."""
        raise StoppedError(problem_of(message), token or self._curr or None)

    def refuse(self, problem: str) -> NoReturn:
        """Stop at the token that is next."""
        raise StoppedError(problem, self._curr or None)

    def _parse_csv(
        self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA
    ) -> list[Any]:
        """Refuse empty parts of a list, which sqlglot would drop."""
        is_first = True

        def parse_part() -> Any:
            nonlocal is_first
            part = parse_method()
            if part is None and not (is_first and self._is_end_of_list(sep)):
                self.refuse("a part of a list is empty")
            is_first = False
            return part

        parts: list[Any] = super()._parse_csv(parse_part, sep)
        return parts

    def _parse_join(self, *args: Any, **named: Any) -> exp.Join | None:
        """Refuse a comma of FROM without a table, which sqlglot would drop."""
        is_comma = self._curr is not None and self._curr.token_type == TokenType.COMMA
        found: exp.Join | None = super()._parse_join(*args, **named)
        if is_comma and found is None:
            self.refuse("no table follows a comma of FROM")
        return found

    def _parse_alias(self, this: Any, explicit: bool = False) -> Any:
        """Refuse AS without an expression or a name, which sqlglot would leave out."""
        if this is None and self._curr and self._curr.token_type == TokenType.ALIAS:
            self.refuse("nothing stands before AS")
        found = super()._parse_alias(this, explicit)
        self._require_name(found is not this)
        return found

    def _parse_table_alias(self, *args: Any, **named: Any) -> exp.TableAlias | None:
        """Refuse AS without a name, which sqlglot would leave out."""
        found: exp.TableAlias | None = super()._parse_table_alias(*args, **named)
        self._require_name(found is not None)
        return found

    def _require_name(self, is_there: bool) -> None:
        if not is_there and self._is_behind(TokenType.ALIAS):
            self.refuse("a name is missing")

    def _is_behind(self, kind: TokenType) -> bool:
        """Whether the last token is of a kind."""
        return bool(self._prev) and self._prev.token_type == kind

    def _parse_range(self, this: Any = None, *args: Any, **named: Any) -> Any:
        """Refuse NOT behind a value and before IS, NULL or nothing, which sqlglot would take."""
        this = this or self._parse_bitwise()
        if this is not None and self._curr and self._curr.token_type == TokenType.NOT:
            kind = self._next.token_type if self._next else None
            if kind == TokenType.IS or kind not in self.RANGE_PARSERS:
                self.refuse("")
        return super()._parse_range(this, *args, **named)

    def _require(self, kind: TokenType, word: str) -> None:
        """Step over a word, which sqlglot would not miss."""
        if not self._match(kind):
            self.refuse(f"{word} is missing")

    def _parse_between(self, this: Any) -> Any:
        """Refuse BETWEEN without AND."""
        symmetric = bool(self._match_text_seq("SYMMETRIC")) or None
        low = self._parse_bitwise()
        self._require(TokenType.AND, "AND")
        found = exp.Between(this=this, low=low, high=self._parse_bitwise(), symmetric=symmetric)
        return self.validate_expression(found)

    def _parse_case(self) -> Any:
        """Refuse WHEN without THEN."""
        if self._curr and self._curr.token_type == TokenType.DOT:
            return super()._parse_case()  # of a column that is called so
        value, ifs, default = self._parse_disjunction(), list[exp.Expression](), None
        while self._match(TokenType.WHEN):
            condition = self._parse_disjunction()
            self._require(TokenType.THEN, "THEN")
            one = exp.If(this=condition, true=self._parse_disjunction())
            ifs.append(self.validate_expression(one))
        if self._match(TokenType.ELSE):
            default = self._parse_disjunction()
        if isinstance(default, exp.Interval) and self._is_behind(TokenType.END):
            default = exp.column("interval")  # which is no interval of so many ENDs
        else:
            self._require(TokenType.END, "END")
        return self.validate_expression(exp.Case(this=value, ifs=ifs, default=default))

    def _parse_in(self, *args: Any, **named: Any) -> Any:
        """Refuse IN without a list."""
        found = super()._parse_in(*args, **named)
        if self._is_behind(TokenType.IN):
            self.refuse("a list is missing")
        return found

    def _parse_cte(self) -> exp.CTE | None:
        """Refuse `WITH AS name`, in which sqlglot would leave AS out."""
        if self._curr and self._curr.token_type == TokenType.ALIAS:
            self.refuse("a name is missing")
        found: exp.CTE | None = super()._parse_cte()
        return found

    def _parse_where(self, skip_where_token: bool = False) -> exp.Where | None:
        """Refuse FILTER (condition), which sqlglot reads as FILTER (WHERE condition)."""
        if skip_where_token and self._prev.token_type != TokenType.WHERE:
            self.refuse("WHERE is missing")
        found: exp.Where | None = super()._parse_where(skip_where_token)
        return found

    def _is_end_of_list(self, sep: TokenType) -> bool:
        return self._curr is None or self._curr.token_type != sep
