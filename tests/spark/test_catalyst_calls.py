"""The records of Catalyst's expressions fit the Spark that is there."""

import json

import pytest
from py4j.protocol import Py4JJavaError

from projseg.spark_datasource.shared_lists import shared_lists

pytestmark = pytest.mark.spark

LISTS = json.loads(shared_lists())
PACKAGES = {
    "functions": ("org.apache.spark.sql.catalyst.expressions", "org.apache.spark.sql.projseg"),
    "aggregates": ("org.apache.spark.sql.catalyst.expressions.aggregate",),
}


@pytest.fixture(scope="module")
def method_names(spark):
    """Return the methods without arguments of a class, or None where there is no such class."""
    loader = spark._jvm.org.apache.spark.util.Utils

    def found(packages, name):
        for package in packages:
            try:
                methods = loader.classForName(f"{package}.{name}", False, False).getMethods()
            except Py4JJavaError:
                continue
            return {one.getName() for one in methods if one.getParameterCount() == 0}
        return None

    return found


@pytest.mark.parametrize("kind", PACKAGES)
def test_spark_has_the_class_of_every_call_and_its_parameters(spark, method_names, kind):
    for call in LISTS[kind]:
        names = method_names(PACKAGES[kind], call["expression"])
        if names is None:  # an older Spark, which has no such function either
            assert not spark.catalog.functionExists(call["function"]), call
        else:
            assert names >= set(call["parameters"]), call


def test_a_list_of_any_length_has_one_kind_of_argument():
    for call in (*LISTS["functions"], *LISTS["aggregates"]):
        assert not call["isVariadic"] or len(call["arguments"]) == 1
        assert "SIZE" not in call["arguments"][:-1]
