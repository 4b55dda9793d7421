"""Wrong results of views that other engines published, and the tests that ask them here."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
VIEWS = "views/test_known_wrong_views.py"
STARS = "views/test_known_wrong_stars.py"
CHANGES = "views/test_changing_dimensions.py"
MANY = "views/test_many_views.py"
IN_SPARK = "spark/test_views_in_spark.py"

PUBLISHED = {
    "dropped, replaced, truncated or rolled-back rows (StarRocks 73687, 70130, 9987, 75924; "
    "Doris 35236)": [(VIEWS, "test_rows_that_went_are_not_counted")],
    "a part coarser than what was dropped (StarRocks 79057)": [
        (VIEWS, "test_a_view_that_is_coarser_than_what_was_dropped")],
    "two views summed over one partition (StarRocks 79103)": [
        (VIEWS, "test_two_views_are_never_added_up")],
    "a total over view and rest in two rows (Doris 40803), an empty rest (Doris 51700)": [
        (VIEWS, "test_a_total_over_parts_and_rest_is_one_row")],
    "rows with a null partition or key lost (StarRocks 21322, 60087; pg_ivm 1.14)": [
        (VIEWS, "test_null_keys_are_in_the_union"), (CHANGES, "test_nulls_in_keys_match_nothing")],
    "an inner question from an outer view without 'has a partner' (Doris 63268)": [
        (STARS, "test_outer_and_inner_joins_stay_what_they_are"),
        (CHANGES, "test_a_view_of_one_kind_of_join_answers_the_others_as_rows_do")],
    "a left join changed into a full or inner one (StarRocks 27163, 36536, 20965)": [
        (STARS, "test_outer_and_inner_joins_stay_what_they_are")],
    "outer and inner joins mixed in one tree (CALCITE-1965)": [
        (STARS, "test_outer_and_inner_joins_stay_what_they_are"),
        ("query/test_stars.py", "test_outer_and_inner_joins_in_one_tree")],
    "a view that was never refreshed (StarRocks 14888)": [
        (VIEWS, "test_a_view_that_was_never_refreshed_answers_nothing")],
    "a view on a view that was refreshed before it (StarRocks 14704)": [
        (VIEWS, "test_a_view_on_a_view_that_is_behind"), (CHANGES, "test_no_view_reads_another")],
    "a refresh while a query runs (Doris 40173)": [
        (VIEWS, "test_a_refresh_while_a_query_runs"),
        ("views/test_views_and_writers.py", "test_totals_at_pinned_versions_while_others_write")],
    "TABLESAMPLE, hints and versions ignored (Doris 43030)": [
        (IN_SPARK, "test_samples_are_not_answered_from_groups_and_lax_arithmetic_is"),
        (IN_SPARK, "test_versions_of_the_past_and_damaged_parts_are_answered_right"),
        (VIEWS, "test_versions_named_in_a_statement_are_those_of_the_table")],
    "deletes unseen (Doris 39171, ClickHouse 12415)": [
        (VIEWS, "test_rows_that_a_vector_hides_are_not_counted"),
        (VIEWS, "test_updates_and_deletes_reach_a_view")],
    "an insert repeated after a lost answer doubles the view (ClickHouse 2765, 76110)": [
        (VIEWS, "test_an_insert_that_is_repeated_counts_once")],
    "a parent's key changed by MERGE (SQL Server, 2013)": [
        (VIEWS, "test_the_changed_key_of_a_parent")],
    "a delta added with its columns crossed (Oracle 2488455.1)": [
        (VIEWS, "test_columns_of_what_is_added_in_another_order")],
    "fresh after a refresh of metadata alone (Hyperspace 193)": [
        (VIEWS, "test_a_refresh_of_metadata_alone_makes_nothing_fresh")],
    "the last bucket never built (Druid 7119)": [(VIEWS, "test_the_last_bucket_is_built")],
    "another result than that of the base (Druid 6969)": [
        (VIEWS, "test_a_condition_on_what_the_view_has_not"),
        ("views/test_lives_of_stars.py",
         "test_answers_are_those_of_the_rows_through_all_of_a_life")],
    "count(DISTINCT) from the wrong sketch (StarRocks 16607)": [
        (VIEWS, "test_distinct_values_are_not_those_of_another_sketch")],
    "a sum of a key (StarRocks 6984), an aggregate over a grouped column without GROUP BY "
    "(CARBONDATA-3629)": [(VIEWS, "test_sums_of_keys_and_distinct_keys")],
    "an average forces a full refresh (CARBONDATA-4330)": [
        (VIEWS, "test_an_average_is_refreshed_by_parts")],
    "one bad view slows or fails all planning (StarRocks 38881, 43276)": [
        (VIEWS, "test_one_bad_view_harms_no_query"),
        (MANY, "test_a_larger_view_is_not_matched_where_smaller_ones_answer")],
    "a session zone other than the view's": [
        (VIEWS, "test_another_session_zone_and_other_buckets"),
        ("spark/test_stored_results.py", "test_a_session_zone_at_a_change_of_the_clock")],
    "ANSI off": [
        (IN_SPARK, "test_samples_are_not_answered_from_groups_and_lax_arithmetic_is"),
        ("spark/test_stored_results.py", "test_rules_of_the_session_that_read_the_select")],
    "a key cast that maps '1' and '01' to one": [
        (STARS, "test_a_key_cast_makes_no_two_keys_one"),
        ("query/test_stars.py", "test_a_key_does_not_become_another_by_a_cast")],
    "decimals of other scale as keys": [(CHANGES, "test_keys_of_other_types")],
    "the same dimension twice, a dimension that is the fact": [
        (CHANGES, "test_the_same_dimension_twice_and_the_fact_as_its_own")],
    "an empty dimension, a fact without a segment": [
        (CHANGES, "test_an_empty_dimension_and_a_fact_without_a_segment")],
    "a segment across the scope's edge": [
        (VIEWS, "test_segments_across_the_edge_of_a_scope_are_not_covered")],
    "another table_id at the same path and version": [
        (VIEWS, "test_another_table_at_the_place_is_not_answered_from_the_views_of_the_first"),
        (CHANGES, "test_another_table_at_the_same_place_and_version_is_another")],
    "version numbers equal after a restore": [
        (CHANGES, "test_equal_version_numbers_after_a_restore_are_not_equal_rows"),
        (VIEWS, "test_another_log_at_the_same_version_is_not_answered_from")],
    "a key that was unique at another version": [
        (STARS, "test_a_key_is_proved_at_the_version_that_is_read")],
}  # fmt: skip
"""By what was published, the tests that ask it: file and function."""


@pytest.mark.sampled(100)
@pytest.mark.parametrize("published", PUBLISHED)
def test_each_is_asked(published):
    for file, name in PUBLISHED[published]:
        assert re.search(rf"^ *def {name}\(", (TESTS / file).read_text(), re.MULTILINE), (
            file,
            name,
        )
