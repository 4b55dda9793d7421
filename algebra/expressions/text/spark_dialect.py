"""`SparkExpression`: Spark's dialect as sqlglot reads and writes it for projseg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.algebra.expressions.expression_limits import TYPE_DEPTH_MAX, too_deep
from projseg.algebra.expressions.parameters.parameter_places import parameter_places


class SparkExpression(Spark):
    """Spark's dialect without sqlglot's own reading of functions, which loses their spelling."""

    class Tokenizer(Spark.Tokenizer):
        """Reads a doubled quote as one quote."""

        STRING_ESCAPES: ClassVar = ["\\", "'", '"']
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            # ? is a parameter, whatever follows it; `_parse_version` reads AS OF.
            if not word.startswith("?") and "SNAPSHOT" not in kind.name
        }

    class Parser(Spark.Parser):  # type: ignore[valid-type, misc]  # it is a variable there
        """Leaves each `name(...)` as a call by that name."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            # They would drop or rename arguments.
            if name not in ("MIN_BY", "MAX_BY", "INITCAP", "LISTAGG", "STRING_AGG")
            and "PERCENTILE" not in name
        }
        PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {
            **Spark.Parser.PLACEHOLDER_PARSERS,
            TokenType.COLON: lambda self: self._parse_parameter(),
        }

        def _parse_parameter(self) -> exp.Placeholder | None:
            """Return the parameter of `:name`; `parameter_places` has made its name one."""
            colon, name = self._prev, self._curr
            if name is None or name.start != colon.end + 1 or not self._match(TokenType.VAR):
                return None
            return exp.Placeholder(this=name.text)

        def _parse_csv(
            self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA
        ) -> list[Any]:
            """Refuse empty parts of a list, which sqlglot would drop."""
            is_first = True

            def parse_part() -> Any:
                nonlocal is_first
                part = parse_method()
                if part is None and not (is_first and self._is_end_of_list(sep)):
                    self.raise_error("a part of a list is empty")
                is_first = False
                return part

            parts: list[Any] = super()._parse_csv(parse_part, sep)
            return parts

        def _parse_where(self, skip_where_token: bool = False) -> exp.Where | None:
            """Refuse FILTER (condition), which sqlglot reads as FILTER (WHERE condition)."""
            if skip_where_token and self._prev.token_type != TokenType.WHERE:
                self.raise_error("Expecting WHERE")
            found: exp.Where | None = super()._parse_where(skip_where_token)
            return found

        def _is_end_of_list(self, sep: TokenType) -> bool:
            return self._curr is None or self._curr.token_type != sep

        def _parse_types(self, *args: Any, **named: Any) -> Any:
            """Refuse types nested so deeply that sqlglot's copies of their parts take long."""
            self._type_depth += 1
            try:
                if self._type_depth > TYPE_DEPTH_MAX:
                    raise too_deep()
                return super()._parse_types(*args, **named)
            finally:
                self._type_depth -= 1

        def reset(self) -> None:
            """Forget what was parsed, and how deep."""
            super().reset()
            self._type_depth = 0

        def _parse_interval(self, *args: Any, **named: Any) -> Any:
            """Keep the parts of `INTERVAL 1 MONTH 2 DAYS` together, as their text has to be."""
            found = super()._parse_interval(*args, **named)
            return exp.Paren(this=found) if isinstance(found, exp.Add) else found

        def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
            """Return the terms of GROUP BY in their order, grouping sets as calls."""
            if not skip_group_by_token and not self._match(TokenType.GROUP_BY):
                return None
            if self._match(TokenType.ALL):
                return exp.Group(all=True)
            terms = self._parse_csv(self._parse_group_term)
            if self._match(TokenType.WITH) and self._match_set((TokenType.ROLLUP, TokenType.CUBE)):
                terms = [exp.Anonymous(this=self._prev.text, expressions=terms)]
            return exp.Group(expressions=terms)

        def _parse_group_term(self) -> Any:
            if not self._match_set((TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS)):
                return self._parse_disjunction()
            name = self._prev.text
            parts = self._parse_wrapped_csv(self._parse_group_term)
            return exp.Anonymous(this=name, expressions=parts)

        def _parse_version(self) -> exp.Version | None:
            """Return the version of a table that Spark's AS OF asks for."""
            start = self._index
            self._match_text_seq("FOR")
            if self._match_texts(("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")):
                kind = self._prev.text.upper()
                if self._match_text_seq("AS", "OF"):
                    return exp.Version(this=kind, expression=self._parse_bitwise(), kind="AS OF")
            self._retreat(start)
            return None

    class Generator(Spark.Generator):  # type: ignore[valid-type, misc]  # it is a variable there
        """Writes constants of time as constants instead of casts."""

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """Return `DATE '2024-05-01'` for it, and CAST for other casts."""
            is_constant = type(expression) is exp.Cast and expression.this.is_string
            if is_constant and expression.to.this in exp.DataType.TEMPORAL_TYPES:
                return f"{self.sql(expression.to)} {self.sql(expression.this)}"
            return str(super().cast_sql(expression, safe_prefix))

        def interval_sql(self, expression: exp.Interval) -> str:
            """Return an interval; a parameter in it stands without brackets."""
            if isinstance(expression.this, exp.Placeholder):
                return f"INTERVAL {self.sql(expression.this)} {self.sql(expression, 'unit')}"
            return str(super().interval_sql(expression))

        def _position_sql(self, expression: exp.StrPosition) -> str:
            """Return the call as it is written, not as `LOCATE`."""
            parts = (expression.args.get(name) for name in ("substr", "this", "position"))
            return f"position({', '.join(self.sql(part) for part in parts if part is not None)})"

        TRANSFORMS: ClassVar = {**Spark.Generator.TRANSFORMS, exp.StrPosition: _position_sql}

    def tokenize(self, sql: str, *dialect: Any) -> list[Token]:
        """Return the tokens of a text, in which names of parameters are no keywords.

        Older releases of sqlglot have no second parameter.
        """
        tokens: list[Token] = super().tokenize(sql, *dialect)
        if ":" in sql:
            for place in parameter_places(tokens):
                tokens[place].token_type = TokenType.VAR
        return tokens
