"""Run commands as a user whom file permissions bind, and make installs that cannot be changed.

Root may write anywhere. Tests often run as root, so their children give up root's privileges but
keep its id, with which they can still read the interpreter's files.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PR_CAPBSET_DROP = 24
_CAPABILITY_COUNT = 41


def _give_up_privileges():
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(_CAPABILITY_COUNT):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def run_restricted(command, environment, **options):
    """Run a command with an environment of its own; return the finished process."""
    return subprocess.run(
        [str(word) for word in command],
        env={name: str(value) for name, value in environment.items()},
        preexec_fn=_give_up_privileges,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def require_permissions(folder):
    """Skip the test if even a restricted child can write where permissions forbid it."""
    folder.mkdir(mode=0o555)
    touched = run_restricted(["touch", folder / "file"], {"PATH": os.environ["PATH"]})
    if touched.returncode == 0:
        pytest.skip(
            "file permissions do not bind this user: neither chmod nor prctl took them away"
        )


def read_only_install(folder):
    """Copy projseg without compiled kernels to a folder that cannot be written; return it."""
    for package in ("projseg", "pyspark_projseg"):
        shutil.copytree(
            ROOT / "src" / package, folder / package, ignore=shutil.ignore_patterns("*.nb[ci]")
        )
    for path in [*folder.rglob("*"), folder]:
        if path.is_dir():
            path.chmod(0o555)
    return folder
