"""A number of a file is what its digits say, in every format and whatever stands beside it."""

import json
import random
from decimal import ROUND_HALF_UP, Context, Decimal

import pytest
from scale import tries

from projseg.catalog.external.allowed_places import AllowedPlaces
from projseg.catalog.external.source_parameters import given_spec
from projseg.catalog.external.source_reader import read_source
from projseg.errors import ProjsegError

pytest.importorskip("sqlalchemy")

TYPES = ("tinyint", "int", "bigint", "float", "double", "decimal(38,0)", "decimal(20,2)",
         "decimal(30,10)", "string")  # fmt: skip
LIMITS = {"tinyint": 2**7, "int": 2**31, "bigint": 2**63}
NEIGHBOURS = (None, "1", "1.0", "1.5", "-0", "-0.0", "1e3", '"12"', "null", "true", '"x"', "[1]")
REFUSED = "refused"


def drawn_number(draw):
    digits = "".join(draw.choices("0123456789", k=draw.randint(1, 40))).lstrip("0") or "0"
    scale = draw.choice([0, 0, 0, 1, 2, 5, 12])
    text = draw.choice(["", "-"]) + digits
    if scale:
        text += "." + "".join(draw.choices("0123456789", k=scale))
    if draw.random() < 0.2:
        text += draw.choice("eE") + draw.choice(["", "+", "-"]) + str(draw.randint(0, 45))
    return text


def expected(text, kind):
    """Return what a number of JSON is in a type; `REFUSED` where it has no such value."""
    exact = Decimal(text)
    if kind == "string":
        return text
    if kind == "double":
        return float(text)
    if kind == "float":
        return None  # compared between the formats alone
    if kind in LIMITS:
        is_whole = exact == exact.to_integral_value()
        fits = is_whole and -LIMITS[kind] <= exact < LIMITS[kind]
        return int(exact) if fits else REFUSED
    precision, scale = map(int, kind[8:-1].split(","))
    if exact.adjusted() > precision:
        return REFUSED
    unit = Decimal(1).scaleb(-scale)
    rounded = exact.quantize(unit, context=Context(prec=400, rounding=ROUND_HALF_UP))
    return rounded if abs(rounded) < Decimal(10) ** (precision - scale) else REFUSED


def read(kind, form, data, **more):
    spec = {"source": "inline", "format": form, "data": data, "schema": f"a {kind}", **more}
    try:
        return read_source(given_spec(spec), AllowedPlaces()).read_all()["a"].to_pylist()
    except ProjsegError as error:
        return REFUSED if "line 1" in error.message else error.message


@pytest.mark.parametrize("kind", TYPES)
def test_formats_agree_with_decimal(kind):
    draw = random.Random(kind)
    for _ in range(tries(800)):
        text, beside = drawn_number(draw), draw.choice(NEIGHBOURS)
        want = expected(text, kind)
        alone = read(kind, "json", f'{{"a":{text}}}')
        if want is not None:
            assert alone == (REFUSED if want is REFUSED else [want]), text
        as_csv = read(kind, "csv", text)
        assert as_csv in (alone, REFUSED), (text, as_csv, alone)
        if as_csv == REFUSED != alone:
            assert kind in LIMITS, "a text of an integer has digits alone"
        nested = read(f"struct<b:array<{kind}>>", "json", f'{{"a":{{"b":[{text}]}}}}')
        assert nested == REFUSED if alone == REFUSED else nested == [{"b": alone}]
        if beside is None or kind == "string":
            continue
        # The neighbour changes neither the value nor whether there is one.
        both = f'{{"a":{text}}}\n{{"a":{beside},"z":1}}'
        found = read(kind, "json", both, onError="null")
        assert repr(found[0]) == repr(None if alone == REFUSED else alone[0]), (text, beside)
        swapped = read(kind, "json", f'{{"a":{beside}}}\n{{"a":{text}}}', onError="null")
        assert repr(swapped[::-1]) == repr(found)


@pytest.mark.parametrize("kind", ["decimal(38,0)", "decimal(38,10)", "decimal(5,2)"])
def test_a_decimal_of_more_digits_than_fit_is_refused(kind):
    for text in ("-972143236745265491513317590011239835982", "9" * 39, "1" + "0" * 40 + ".5"):
        assert read(kind, "json", f'{{"a":{text}}}') == REFUSED
        assert read(kind, "csv", text) == REFUSED


def test_types_are_the_same_wherever_the_odd_line_is():
    """Those of a block are guessed from its first lines, where the rest says nothing else."""
    draw = random.Random(7)
    kinds = ["7", "1.5", "true", '"x"', "null", '"2024-01-01 00:00:00"', "[1]", '{"c":1}', "1e3",
             "12345678901234567890"]  # fmt: skip
    for _ in range(tries(80)):
        usual, odd = draw.sample(kinds, 2)
        lines = [f'{{"a":{usual},"b":"{"x" * 4000}"}}'] * 80
        line = draw.choice([f'{{"a":{odd},"b":"y"}}', f'{{"a":{odd},"b":"y","z":1}}', "{}"])
        spec = {"source": "inline", "format": "json"}

        def types(lines, spec=spec):
            found = read_source(given_spec({**spec, "data": [*lines, ""]}), AllowedPlaces()).schema
            return {field.name: field.type for field in found}

        assert types([*lines, line]) == types([line, *lines]), (usual, odd, line)


def test_a_value_that_is_refused_is_named_by_line_and_column():
    draw = random.Random(5)
    for _ in range(tries(60)):
        count = draw.randint(1, 40)
        bad = draw.randrange(count)
        lines = [json.dumps({"a": n}) for n in range(count)]
        lines[bad] = '{"a": 9223372036854775808}'
        spec = {"source": "inline", "format": "json", "data": lines, "schema": "a bigint"}
        with pytest.raises(ProjsegError) as raised:
            read_source(given_spec(spec), AllowedPlaces()).read_all()
        assert f"line {bad + 1}, column 'a'" in raised.value.message
