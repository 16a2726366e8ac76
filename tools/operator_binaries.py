"""Builds an operator of another project, for a test that it runs on ``pumice up`` unchanged; prints its folder.

python -m tools.operator_binaries

mpi-operator is built from its Go module, by module name and version, in some minutes, once. Its program and its
CustomResourceDefinition go to the user's cache directory, outside of the checkout. Without Go the tool prints a message
and exits with status 3.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.kubernetes_binaries import NOT_AVAILABLE, go

MODULE, VERSION = "github.com/kubeflow/mpi-operator", "v0.8.0"
PROGRAM: Final = "mpi-operator"
DEFINITION: Final = "kubeflow.org_mpijobs.yaml"


def cache() -> Path:
    """The folder of the operator in this version."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "pumice" / f"{PROGRAM}-{VERSION}"


def is_built() -> bool:
    """Whether the folder has program and definition."""
    return all((cache() / name).exists() for name in (PROGRAM, DEFINITION))


def build() -> Path:
    """Build the operator into the cache. What is half done is never taken for done."""
    target = cache()
    target.mkdir(parents=True, exist_ok=True)
    sys.stderr.write(f"building {PROGRAM} {VERSION} into {target}; this takes some minutes, once\n")
    with tempfile.TemporaryDirectory(dir=target) as place:
        work = Path(place)
        described = json.loads(go(work, "mod", "download", "-json", f"{MODULE}@{VERSION}"))
        source = Path(described["Dir"])
        # The module is the main one, so that its own versions of dependencies count.
        go(
            source,
            "build",
            "-p",
            "1",
            "-trimpath",
            "-o",
            str(work / PROGRAM),
            f"./cmd/{PROGRAM}",
            flags="-mod=readonly",
        )
        shutil.copyfile(source / "manifests" / "base" / DEFINITION, work / DEFINITION)
        for name in (DEFINITION, PROGRAM):
            (work / name).replace(target / name)
    return target


def main() -> int:
    """Find or build, and print where."""
    if not is_built():
        if not shutil.which("go"):
            sys.stderr.write(f"there is no Go to build {PROGRAM} with\n")
            return NOT_AVAILABLE
        os.nice(10)
        try:
            build()
        except RuntimeError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    sys.stdout.write(f"{cache()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
