"""TRY_CAST and try_add, ...: the plain operation's value, and null where that is an error."""

import pyarrow as pa
import pytest
from function_cases import CALLS, RAISED, SCHEMA, call_of, outcomes, values_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.tree import Call, Column
from projseg.errors import EvaluationError

PLAIN = {
    "try_add": "+",
    "try_subtract": "-",
    "try_multiply": "*",
    "try_divide": "/",
    "try_mod": "%",
    "try_cast": "cast",
}
ROWS = 20


@pytest.mark.parametrize("function", PLAIN)
def test_it_is_the_plain_operation_or_null(function):
    @settings(deadline=None, max_examples=25)
    @given(st.data())
    def check(data):
        call = call_of(function, data.draw(st.sampled_from(CALLS[function])), "America/New_York")
        assume(call is not None)
        columns = {
            a.name: data.draw(
                st.lists(st.none() | values_of(a.type, [0]), min_size=ROWS, max_size=ROWS)
            )
            for a in call.arguments
            if isinstance(a, Column)
        }
        plain = Call(call.type, PLAIN[function], call.arguments, call.parameters)
        expected = [None if one is RAISED else one for one in outcomes(plain, columns, ROWS)]
        assert list(map(repr, outcomes(call, columns, ROWS))) == list(map(repr, expected))

    check()


def test_a_cast_that_cannot_fail_is_a_plain_cast():
    assert bind("TRY_CAST(i AS BIGINT)", SCHEMA) == bind("CAST(i AS BIGINT)", SCHEMA)
    assert bind("TRY_CAST(i AS INT)", SCHEMA) == bind("i", SCHEMA)


def test_only_its_own_errors_become_null():
    column = {"i": pa.array([1, 0], pa.int32())}
    with pytest.raises(EvaluationError, match="DIVIDE_BY_ZERO"):
        evaluate(bind("try_add(1 / i, 1)", SCHEMA), column, 2)
