"""Finds kube-apiserver and etcd for tests against a real Kubernetes API, or builds them; prints their folder.

python -m tools.kubernetes_binaries

They are searched in ``KUBEBUILDER_ASSETS``, on ``PATH`` and in the cache, and otherwise built from the Go module
registry, by module name and version: about six minutes on two cores, once. The cache is outside of the checkout, in
the user's cache directory. Without Go the tool prints a message and exits with status 3.

A built folder contains kube-controller-manager too. Other folders often lack it and are accepted: the tests that need
it search for it themselves.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

KUBERNETES, ETCD = "1.36.4", "3.6.14"
NEEDED = ("kube-apiserver", "etcd")
BUILT = (*NEEDED, "kube-controller-manager")
NOT_AVAILABLE = 3
VERSION_VARIABLES = ("k8s.io/client-go/pkg/version", "k8s.io/component-base/version")


def cache() -> Path:
    """The folder of built binaries."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "pumice" / f"kubernetes-{KUBERNETES}-etcd-{ETCD}"


def places() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Folders to search, and the binaries that each must contain."""
    if given := os.environ.get("KUBEBUILDER_ASSETS"):
        yield Path(given), NEEDED
    if on_path := shutil.which(NEEDED[0]):
        yield Path(on_path).parent, NEEDED
    yield cache(), BUILT


def found() -> Path | None:
    """A folder that has what it must have."""
    return next((place for place, needed in places() if not missing(place, needed)), None)


def missing(place: Path, needed: Sequence[str]) -> list[str]:
    """The binaries that a folder lacks."""
    return [name for name in needed if not os.access(place / name, os.X_OK)]


def build() -> Path:
    """Build what is missing into the cache. What is half done is never taken for done."""
    target = cache()
    target.mkdir(parents=True, exist_ok=True)
    wanted = missing(target, BUILT)
    with tempfile.TemporaryDirectory(dir=target) as place:
        work = Path(place)
        _say(f"building {', '.join(wanted)} ({target.name}) into {target.parent}; this takes some minutes, once")
        build_kubernetes(work, [name for name in wanted if name != "etcd"])
        if "etcd" in wanted:
            _build_etcd(work)
        for name in wanted:
            (work / name).replace(target / name)
    return target


def build_kubernetes(work: Path, names: Sequence[str]) -> None:
    """Build programs of Kubernetes into a folder, all of one version."""
    if not names:
        return
    module = work / "kubernetes"
    module.mkdir()
    version = ["go 1.26.0", "godebug default=go1.26", f"require k8s.io/kubernetes v{KUBERNETES}"]
    (module / "go.mod").write_text("\n".join(["module test.invalid/kubernetes", *version, ""]))
    # Kubernetes refers to its own modules by paths within its repository; a dependent module must say where they are.
    staging = f"v0.{KUBERNETES.partition('.')[2]}"
    described = json.loads(go(module, "mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}"))
    parts = re.findall(
        r"^\s*(?:replace )?(k8s\.io/\S+) => \./staging/", Path(described["GoMod"]).read_text(), re.MULTILINE
    )
    go(module, "mod", "edit", *(f"-replace={part}={part}@{staging}" for part in parts))
    minor = KUBERNETES.split(".")[1]
    # Without a version the server calls itself v0.0.0, and clients refuse it.
    facts = {"gitVersion": f"v{KUBERNETES}", "gitMajor": "1", "gitMinor": minor}
    flags = [f"-X {package}.{name}={value}" for package in VERSION_VARIABLES for name, value in facts.items()]
    linked = " ".join(["-s -w", *flags])
    for name in names:
        go(module, "build", "-trimpath", "-ldflags", linked, "-o", str(work), f"k8s.io/kubernetes/cmd/{name}")


def _build_etcd(work: Path) -> None:
    module = work / "etcd-module"
    module.mkdir()
    lines = ["module test.invalid/etcd", "go 1.26.0", f"require go.etcd.io/etcd/server/v3 v{ETCD}", ""]
    (module / "go.mod").write_text("\n".join(lines))
    go(module, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(work / "etcd"), "go.etcd.io/etcd/server/v3")


def go(folder: Path, *arguments: str, flags: str = "-mod=mod") -> str:
    """The output of a go command, without cgo; by default it may complete ``go.mod``. ``RuntimeError`` if it fails."""
    environment = {**os.environ, "GOFLAGS": flags, "CGO_ENABLED": "0"}
    done = subprocess.run(["go", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"go {arguments[0]} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> int:
    """Find or build, and print where."""
    place = found()
    if place is None:
        if not shutil.which("go"):
            _say("there are no kube-apiserver and etcd in KUBEBUILDER_ASSETS or on PATH, and no Go to build them with")
            return NOT_AVAILABLE
        try:
            place = build()
        except RuntimeError as error:
            _say(str(error))
            return 1
    sys.stdout.write(f"{place}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
