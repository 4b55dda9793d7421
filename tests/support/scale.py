"""How much a test does: CI's share, or the night's."""

import os

IS_NIGHTLY = os.environ.get("PROJSEG_NIGHTLY") == "1"
