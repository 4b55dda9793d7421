"""Refuses to build from a checkout without symbolic links, and adds compiled kernels to a wheel.

`src/projseg` holds links to the folders at the top level. Git and some unpackers write a small text
file in place of each link where links are off, and the wheel would be nearly empty. Everything else
is said by pyproject.toml.
"""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PACKAGE = Path(__file__).parent / "src" / "projseg"
WITHOUT_KERNELS = "PROJSEG_WITHOUT_KERNELS"  # a quick build, whose first queries compile


def refuse_without_links() -> None:
    """Stop the build if a link is missing its folder."""
    broken = sorted(
        path.name for path in PACKAGE.iterdir() if not path.is_dir() and not path.suffix
    )
    if broken:
        raise SystemExit(
            f"projseg cannot be built here: {', '.join(broken)} in src/projseg should be symbolic "
            "links to folders and are not. In a clone, run `git config core.symlinks true` and "
            "`git checkout -- src`; unpack an archive with a tool that keeps links, such as tar."
        )


class BuildWithKernels(build_py):
    """Copies modules, and puts machine code of kernels beside them where it can be made."""

    def run(self) -> None:
        """Build; an editable install compiles kernels when they are first called."""
        super().run()
        if self.editable_mode or WITHOUT_KERNELS in os.environ:
            return
        file = Path(self.build_lib).absolute() / "projseg/kernels/runtime/shipped.code"
        words = [sys.executable, "-m", "projseg.kernels.runtime.shipped_code", "make", str(file)]
        environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
        made = subprocess.run(words, env=environment)  # noqa: S603 - this very Python
        if made.returncode:
            print("without compiled kernels: a fresh machine will compile them at their first call")


refuse_without_links()
setup(cmdclass={"build_py": BuildWithKernels})
