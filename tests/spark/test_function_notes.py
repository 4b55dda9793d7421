"""Every example in docs/functions.md has the value that Spark gives."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "docs"))

from function_notes import FUNCTIONS, OWN_FUNCTIONS, SYNTAX
from function_reference import text_of

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.expressions.functions.function_table import SPELLINGS

pytestmark = pytest.mark.spark

EXAMPLES = [note[-1] for notes in FUNCTIONS.values() for note in notes]
EXAMPLES += [example for *_, example in SYNTAX if example]


def not_yet_in(spark):
    """Return the functions that came with a later Spark."""
    since_4_1 = {
        "theta_sketch_agg",
        *(f"kll_sketch_agg_{of}" for of in ("bigint", "double", "float")),
    }
    return (since_4_1 if spark.version < "4.1" else set()) | (
        {"time_bucket"} if spark.version < "4.2" else set()
    )


def test_examples_have_sparks_values(spark):
    examples = [e for e in EXAMPLES if not any(name in e for name in not_yet_in(spark))]
    outputs = ", ".join(f"CAST({example} AS STRING)" for example in examples)
    expected = spark.sql(f"SELECT {outputs}").collect()[0]
    found = [text_of(example) for example in examples]
    assert dict(zip(examples, found, strict=True)) == {
        example: "NULL" if value is None else value
        for example, value in zip(examples, expected, strict=True)
    }


def test_names_are_sparks_unless_the_page_says_otherwise(spark):
    noted = [SPELLINGS[note[0]] for notes in FUNCTIONS.values() for note in notes]
    names = [name for spelling in noted for name in (spelling.name, *spelling.aliases)]
    names += [name for name in AGGREGATES if not name.endswith("_distinct")]
    names += ["approx_count_distinct"]
    unknown = {name for name in names if not spark.catalog.functionExists(name)}
    in_grammar_alone = {"timestampdiff"}
    assert unknown == not_yet_in(spark) | in_grammar_alone
    own = [note[0] for note in OWN_FUNCTIONS]
    own += [name for note in own if note in SPELLINGS for name in SPELLINGS[note].aliases]
    known = [name for name in own if spark.catalog.functionExists(name)]
    classes = {name: spark.catalog.getFunction(name).className for name in known}
    ours = "org.apache.spark.sql.projseg."  # the extension brings them
    assert [name for name in known if not classes[name].startswith(ours)] == []
