"""Verbs that say what a table is: describe, schema, segments, projections, history."""

from __future__ import annotations

import pyarrow as pa

from projseg.cli.arguments import Location, Output, Tag, Timestamp, Version
from projseg.cli.output import print_fields, print_rows
from projseg.cli.stores import open_table
from projseg.segment_format.types import type_name


def describe(
    location: Location,
    version: Version = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    output: Output = None,
) -> None:
    """Say what a table holds: version, rows, segments, bytes, properties, projections."""
    print_fields(open_table(location, version, timestamp, tag).detail(), output, title=location)


def schema(
    location: Location,
    version: Version = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    output: Output = None,
) -> None:
    """List a table's columns and their types."""
    stored = open_table(location, version, timestamp, tag).schema
    names = pa.array(stored.names, pa.string())
    types = pa.array([type_name(field.type) for field in stored], pa.string())
    print_rows(pa.table({"column": names, "type": types}), output)


def segments(
    location: Location,
    version: Version = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    output: Output = None,
) -> None:
    """List a table's segments: file, interval, rows, bytes."""
    print_rows(open_table(location, version, timestamp, tag).segments(), output)


def projections(
    location: Location,
    version: Version = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    output: Output = None,
) -> None:
    """List a table's projections and how many segments hold each."""
    print_rows(open_table(location, version, timestamp, tag).projections(), output)


def history(location: Location, output: Output = None) -> None:
    """List the commits of a table, newest first."""
    print_rows(open_table(location).history(), output)
