"""Lets Spark find `format("projseg")` by itself: its look-up imports every `pyspark_*` module.

One module that fails to import disables the look-up of all of them, so this one never raises.
"""

try:
    from projseg.extras import require_spark

    require_spark("format('projseg')")
    from projseg.spark_datasource.datasource import ProjsegDataSource as DefaultSource
except Exception:  # noqa: BLE001, S110 - see above; `projseg doctor` names the reason
    pass
else:
    __all__ = ["DefaultSource"]
