"""Statements that make or replace a table by name, drawn with what goes wrong in them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

CLASS = "org.apache.spark.sql.projseg.ProjsegCatalog"
CATALOGS = ("session", "external", "folder", "definitions")
QUERIES = (
    "SELECT k, g, t FROM {z} WHERE g % 3 = 1",
    "SELECT g, max(k) AS k, max(t) AS t, count(*) AS n FROM {z} GROUP BY g",
    "SELECT cast(k AS string) AS k, g, t, 'x' AS s FROM {z}",
    "SELECT t, cast(g AS int) AS g, cast(k AS bigint) AS k FROM {z}",
    "SELECT a.k, b.g, cast(a.t AS date) AS t FROM {z} a JOIN {z} b ON a.k = b.k AND a.t = b.t",
    "SELECT id AS k, id % 5 AS g, timestamp_seconds(id * 40000) AS t FROM range(30)",
    "SELECT k AS K, g AS G, t AS T FROM {z}",
    "SELECT k, g, t FROM {z} WHERE false",
    "SELECT k, g, t, map(g, array(k)) AS m FROM {z}",
)
OF_QUERIES = ("replaceAs", "createOrReplaceAs", "saveAsTable", "replace", "createOrReplace")
OF_FRAMES = ("saveAsTable", "replace", "createOrReplace")
OF_COLUMNS = ("replaceTable", "createOrReplaceTable")
BAD_PROPERTIES = (
    ({"timeColumn": "absent"}, "PROJSEG_UNKNOWN_COLUMN"),
    ({"segmentGranularity": "dayly", "timeColumn": "{t}"}, "PROJSEG_"),
    ({"segmentGranularity": "day"}, "PROJSEG_"),
    ({"clusterBy": "absent"}, "PROJSEG_"),
    ({"projections": "not json"}, "PROJSEG_"),
    ({"projections": '[{"name": "p", "sql": "SELECT absent GROUP BY ALL"}]'}, "PROJSEG_"),
    ({"targetSegmentRows": "many"}, "PROJSEG_"),
    ({"autoCompact": "maybe"}, "PROJSEG_BAD_OPTION"),
    ({"autocompact": "true"}, "PROJSEG_"),
    ({"segmentGranularty": "day"}, "PROJSEG_UNKNOWN_OPTION.*did you mean"),
)


@dataclass
class Replacing:
    """A statement: its form, the query or columns, properties, and how it fails, if it does."""

    form: str
    query: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    error: str = ""
    options: dict[str, str] = field(default_factory=dict)
    location: str = ""

    def run(self, spark, name):
        """Run it, through SQL or a writer."""
        if self.form in OF_FRAMES:
            self.write(spark.sql(self.query), name)
            return
        verb = "REPLACE" if self.form.startswith("replace") else "CREATE OR REPLACE"
        verb = "CREATE" if self.form == "createAs" else verb
        listed = ", ".join(
            f"'{key}' = '{text.replace(chr(39), chr(92) + chr(39))}'"
            for key, text in self.properties.items()
        )
        columns = " (k bigint, g bigint, t timestamp, `odd name` string)"
        spark.sql(
            f"{verb} TABLE {name}{'' if self.query else columns} USING projseg"
            + (f" LOCATION '{self.location}'" if self.location else "")
            + (f" TBLPROPERTIES ({listed})" if listed else "")
            + (f" AS {self.query}" if self.query else "")
        )

    def write(self, frame, name):
        """Write a frame by the writer of the form."""
        if self.form == "saveAsTable":
            writer = frame.write.format("projseg").mode("overwrite")
            writer.options(**self.properties, **self.options).saveAsTable(name)
            return
        writer = frame.writeTo(name).using("projseg")
        for key, text in self.properties.items():
            writer = writer.tableProperty(key, text)
        for key, text in self.options.items():
            writer = writer.option(key, text)
        writer.replace() if self.form == "replace" else writer.createOrReplace()


def drawn_properties(draw, columns):
    """Return properties that a table of columns, by their names without case, can have."""
    found = {}
    if draw.random() < 0.5:
        found["timeColumn"] = columns["t"]
        found |= draw.choice([{}, {"segmentGranularity": "day"}, {"segmentGranularity": "month"}])
    if draw.random() < 0.3:
        found["clusterBy"] = columns["g"]
    if draw.random() < 0.4:
        sql = f"SELECT {columns['g']}, count(*) AS n GROUP BY ALL"
        found["projections"] = json.dumps([{"name": "by_g", "sql": sql}])
    if draw.random() < 0.3:
        found["autoCompact"] = draw.choice(["true", "false"])
    return found
