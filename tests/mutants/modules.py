"""Which modules can be mutated, which tests are asked about each, and which are settled."""

from __future__ import annotations

_EXPRESSIONS = (
    "tests/algebra/test_expression_evaluate.py",
    "tests/algebra/test_expression_bind.py",
    "tests/algebra/test_casts_as_spark.py",
    "tests/algebra/test_expression_limits.py",
    "tests/algebra/test_function_records.py",
)
_CLOCK = (
    "tests/algebra/test_granularity_forms.py",
    "tests/algebra/test_granularity.py",
    "tests/algebra/test_bucket_order.py",
)
_PROOFS = (
    "tests/matching/test_predicate_truth.py",
    "tests/matching/test_value_set.py",
    "tests/matching/test_filter_implication.py",
    "tests/matching/test_filter_simplify.py",
    "tests/matching/test_published_faults.py",
    "tests/matching/test_projection_match.py",
)
_STATES = (
    "tests/states/test_state_columns.py",
    "tests/states/test_state_folds.py",
    "tests/states/test_finish_call.py",
    "tests/states/test_state_fields.py",
)
_EXACT = ("tests/query/test_variances.py", "tests/query/test_ties.py")

_VIEWS = (
    "tests/views/test_cut_intervals.py",
    "tests/views/test_followed_parts.py",
    "tests/views/test_known_wrong_views.py",
)

TESTS: dict[str, tuple[str, ...]] = {
    **{
        f"algebra/expressions/functions/{name}.py": _EXPRESSIONS
        for name in (
            "numeric",
            "decimal_arithmetic",
        )
    },
    "algebra/expressions/functions/arithmetic.py": ("tests/algebra/test_arithmetic.py",),
    **{
        f"algebra/expressions/functions/{name}.py": ("tests/algebra/test_comparisons.py",)
        for name in ("comparison", "conditional")
    },
    "algebra/expressions/evaluate.py": _EXPRESSIONS,
    "algebra/time/interval.py": ("tests/algebra/test_interval.py",),
    "algebra/time/zoned_buckets.py": _CLOCK,
    "algebra/time/duration.py": (
        "tests/algebra/test_period.py",
        "tests/algebra/test_interval_texts.py",
    ),
    "algebra/expressions/tree.py": _PROOFS,
    "algebra/expressions/inverses.py": ("tests/algebra/test_function_inverses.py",),
    "algebra/proofs/segment_facts.py": ("tests/query/test_segment_constants.py",),
    "algebra/proofs/value_set.py": (
        *_PROOFS,
        "tests/query/test_time_predicates.py",
        "tests/matching/test_integer_ranges.py",
        "tests/aggregation/test_linear_sums.py",
    ),
    "algebra/proofs/filter_proofs.py": _PROOFS,
    "algebra/proofs/predicate_truth.py": _PROOFS,
    "algebra/planning/partial_match.py": (
        "tests/matching/test_projection_choice.py",
        "tests/matching/test_projection_match.py",
    ),
    "views/cover_test.py": _VIEWS,
    "views/followed_parts.py": ("tests/views/test_followed_parts.py",),
    "views/classify_parts.py": ("tests/views/test_changing_dimensions.py",),
    "evaluation/masks.py": (
        "tests/aggregation/test_number_ranges.py",
        "tests/aggregation/test_filter_rows.py",
    ),
    "evaluation/arrow_vectors.py": (
        "tests/aggregation/test_sorted_dictionaries.py",
        "tests/aggregation/test_grouping.py",
        *_STATES,
    ),
    **{
        f"aggregation/{name}.py": _STATES
        for name in ("distinct", "extremum", "state", "state_table")
    },
    "aggregation/final_values.py": (*_STATES, *_EXACT),
    "aggregation/moments.py": ("tests/states/test_moments.py",),
    "aggregation/count_and_sum.py": ("tests/states/test_exact_sums.py",),
    "aggregation/hash_sketches.py": (
        "tests/states/test_hll.py",
        "tests/states/test_theta.py",
        *_STATES,
    ),
}

# Each survivor of these has a reason; they are tried where no module is named.
SETTLED = (
    "algebra/expressions/functions/conditional.py",
    "algebra/time/duration.py",
    "algebra/time/interval.py",
)
