"""Finds Volcano's end-to-end suites as compiled programs, or builds them; prints their folder.

python -m tools.volcano_suites

They are compiled unchanged from the Go module ``volcano.sh/volcano``, by version, with ``vcctl``, which one of them
calls: about six minutes on two cores, once. The cache is outside of the checkout, in the user's cache directory, beside
that of ``kubernetes_binaries``. Without Go the tool prints a message and exits with status 3.

The module refers to its API types by a path within its repository, which is not part of the module; they are the module
``volcano.sh/apis``, which has a release of its own. Only a copy of ``go.mod`` says so; no source file is touched.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from tools.kubernetes_binaries import NOT_AVAILABLE, cache, go, missing

VOLCANO, APIS = "1.14.1", "1.14.0"
SUITES = ("admission", "jobp", "jobseq", "schedulingaction", "vcctl")
CLIENT = "vcctl"
CHART = Path("installer", "helm", "chart", "volcano")
DEFINITIONS = "definitions"
CONFIGURATION = "volcano-scheduler-ci.conf"


def folder() -> Path:
    """Where the programs stay once they are built, with the definitions and the configuration that they expect."""
    return cache().parent / f"volcano-suites-{VOLCANO}"


def program(suite: str) -> str:
    """The name of a suite's program."""
    return f"{suite}.test"


def needed() -> list[str]:
    """What has to be built or copied."""
    place = folder()
    files = [name for name in (DEFINITIONS, CONFIGURATION) if not (place / name).exists()]
    return [*missing(place, [*map(program, SUITES), CLIENT]), *files]


def build() -> Path:
    """Build what is missing. The folder gets programs that are complete only."""
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    wanted = needed()
    sys.stderr.write(f"building {', '.join(wanted)} into {target}; this takes some minutes, once\n")
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        work = Path(place)
        module = _module(work)
        with_versions = ["-modfile", str(work / "go.mod"), "-trimpath", "-ldflags", "-s -w"]
        for suite in SUITES:
            if program(suite) in wanted:
                output = str(work / program(suite))
                # vet would compile every dependency once more.
                go(module, "test", "-c", "-vet=off", *with_versions, "-o", output, f"./test/e2e/{suite}")
        if CLIENT in wanted:
            go(module, "build", *with_versions, "-o", str(work / CLIENT), "./cmd/cli")
        if CONFIGURATION in wanted:
            shutil.copyfile(module / CHART / "config" / CONFIGURATION, work / CONFIGURATION)
        if DEFINITIONS in wanted:
            (work / DEFINITIONS).mkdir()
            for definition in sorted((module / CHART).glob("**/crd/bases/*.yaml")):
                shutil.copyfile(definition, work / DEFINITIONS / definition.name)
        for name in wanted:
            (work / name).replace(target / name)
    return target


def _module(work: Path) -> Path:
    """The folder of the module's sources; ``work`` gets the ``go.mod`` to build them with."""
    described = json.loads(go(work, "mod", "download", "-json", f"volcano.sh/volcano@v{VOLCANO}"))
    module = Path(described["Dir"])
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(module / name, work / name)
    go(work, "mod", "edit", f"-replace=volcano.sh/apis=volcano.sh/apis@v{APIS}")
    return module


def main() -> int:
    """Find or build, and print where."""
    if needed():
        if not shutil.which("go"):
            sys.stderr.write("Volcano's suites are not built, and there is no Go to build them with\n")
            return NOT_AVAILABLE
        try:
            build()
        except RuntimeError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    sys.stdout.write(f"{folder()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
