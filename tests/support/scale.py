"""How many cases tests try: few in CI, many in the nightly run."""

import os

IS_NIGHTLY = os.environ.get("PROJSEG_NIGHTLY") == "1"
