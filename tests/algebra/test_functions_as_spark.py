"""Values and names that Spark 4.3 gave for hashes, parts of texts, texts of times, digits."""

import pyarrow as pa
import pytest

from projseg.algebra.expressions.bind import bind, bind_named
from projseg.algebra.expressions.evaluate import evaluate
from projseg.errors import EvaluationError, InvalidInputError, UnsupportedFeatureError

NOTHING = pa.schema([])


def text_of(text, zone="UTC"):
    return evaluate(bind(f"CAST({text} AS STRING)", NOTHING, timezone=zone), {}, 1)[0].as_py()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("hash('Spark', 1, NULL, 2.5)", "332366428"),
        ("xxhash64('Spark', 1, NULL, 2.5)", "-5529230333474148193"),
        ("hash(-0.0D, double('nan'), 1Y, TRUE)", "-259373775"),
        ("xxhash64(1.5F, DATE '2015-09-12', X'0102')", "-413778270919331591"),
        ("hash(CAST(1 AS DECIMAL(38,0)), 'é')", "-2144406291"),
        (
            "sha2('a', 384)",
            "54a59b9f22b0b80880d8427e548b7c23abd873486e1f035dce9cd697e85175033caa88e6d57bc35efae0b5afd3145f31",
        ),
        ("bin(-1Y)", "1111111111111111111111111111111111111111111111111111111111111111"),
        ("crc32('')", "0"),
        ("sha1('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("regexp_extract('x=1; y=2', '(\\\\w)=(\\\\d)$', 2)", "2"),
        ("regexp_extract('b', '(a)|b')", ""),
        ("size(split('', ','))", "1"),
        ("split('aXbXc', 'X', 2)[1]", "bXc"),
        ("size(split('abc', ''))", "3"),
        ("split('aab', 'a+')[1]", "b"),
        ("get(split('a,b', ','), 2)", None),
        (
            "date_format(TIMESTAMP '2015-09-02 03:04:05.678901', 'G y yy yyyy M MM MMM MMMM')",
            "AD 2015 15 2015 9 09 Sep September",
        ),
        (
            "date_format(TIMESTAMP '2015-09-02 03:04:05.678901', 'Q qq QQQ QQQQ d dd D DDD')",
            "3 03 Q3 3rd quarter 2 02 245 245",
        ),
        (
            "date_format(TIMESTAMP '2015-09-02 03:04:05.678901', 'E EEEE a H kk K hh m ss')",
            "Wed Wednesday AM 3 03 3 03 4 05",
        ),
        (
            "date_format(TIMESTAMP '2015-09-02 03:04:05.678901', 'S SSS SSSSSSS X xxx ZZZZZ Z')",
            "6 678 6789010 Z +00:00 Z +0000",
        ),
        ("date_format(TIMESTAMP '2015-09-02 03:04:05.678901', 'yyyy\\'T\\'\\'\\'HH')", "2015T'03"),
        ("bround(2.5)", "2"),
        ("bround(3.5D)", "4.0"),
        ("bround(-25, -1)", "-20"),
        ("bround(0.125D, 2)", "0.12"),
        ("floor(-1.25, 1)", "-1.3"),
        ("ceil(1.21D, 1)", "1.3"),
        ("floor(-15, -1)", "-20"),
        ("try_divide(1, 0)", None),
        ("try_mod(7, 0)", None),
        ("try_subtract(CAST(-128 AS TINYINT), 1Y)", None),
        ("TRY_CAST('2024-02-30' AS DATE)", None),
        ("TRY_CAST('1e3' AS DOUBLE)", "1000.0"),
        ("log(1, 2)", "Infinity"),
        ("log(0, 2)", None),
    ],
)
def test_values_are_those_that_spark_gave(text, value):
    assert text_of(text) == value


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("split('a,b', ',')[0]", "split(a,b, ,, -1)[0]"),
        ("regexp_extract('a', '(a)')", "regexp_extract(a, (a), 1)"),
        ("bround(2.5)", "bround(2.5, 0)"),
        ("floor(2.55, 1)", "floor(2.55, 1)"),
        ("log(3)", "LOG(E(), 3)"),
        ("log(2, 8)", "LOG(2, 8)"),
        ("from_unixtime(1)", "from_unixtime(1, yyyy-MM-dd HH:mm:ss)"),
    ],
)
def test_names_are_those_that_spark_gave(text, name):
    assert bind_named(text, NOTHING).name == name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("date_format(TIMESTAMP '2015-09-12 00:00:00', 'YYYY')", "the letter 'Y'"),
        ("date_format(TIMESTAMP '2015-09-12 00:00:00', 'ddd')", "3 times 'd'"),
        ("date_format(TIMESTAMP '2015-09-12 00:00:00', 'HH[:mm]')", "put it in quotes"),
        ("date_format(TIMESTAMP '2015-09-12 00:00:00', '\\'a')", "open quote"),
        ("md5(1)", "a text or binary, not int"),
        ("hash(array(1))", "not nested"),
        ("try_add('1', 1)", "numbers, not string"),
        ("array_contains(array(1), 'a')", "cast the value"),
        ("array_contains(array(1), NULL)", "cast the value"),
        ("'abc'[0]", "an array, not string"),
        ("floor(1.5, 1 + NULL)", "must be a constant"),
    ],
)
def test_what_is_refused_names_the_reason(text, words):
    with pytest.raises((InvalidInputError, UnsupportedFeatureError), match=words):
        bind(text, NOTHING)


@pytest.mark.parametrize("text", ["split('a', ',')[1]", "element_at(array(1), 0)", "array(1)[5]"])
def test_an_item_that_is_not_there_is_an_error(text):
    with pytest.raises((EvaluationError, UnsupportedFeatureError)):
        text_of(text)
