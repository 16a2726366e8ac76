"""Finds Helm for the tests of the chart, or builds it; prints its path.

python -m tools.helm_binary

Helm is searched on ``PATH`` and in the cache, and otherwise built from the Go module registry, by module name and
version, with the libraries of the Kubernetes version that ``kubernetes_binaries`` builds, so that both share compiled
packages. After Kubernetes, the build takes a minute on two cores, once. Without Go the tool prints a message and exits
with status 3.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tools.kubernetes_binaries import KUBERNETES, NOT_AVAILABLE, cache, go

HELM = "4.2.4"
MODULE = "helm.sh/helm/v4"
SHARED = ("api", "apiextensions-apiserver", "apimachinery", "apiserver", "cli-runtime", "client-go", "kubectl")
ABSENT = "there is no helm on PATH, and no Go to build it with"


def place() -> Path:
    """The path of the built binary."""
    return cache().parent / f"helm-{HELM}" / "helm"


def found() -> Path | None:
    """The one that there is."""
    on_path = shutil.which("helm")
    if on_path:
        return Path(on_path)
    return place() if os.access(place(), os.X_OK) else None


def build() -> Path:
    """Build it into the cache. What is half done is never taken for done."""
    target = place()
    target.parent.mkdir(parents=True, exist_ok=True)
    libraries = f"v0.{KUBERNETES.partition('.')[2]}"
    required = [f"require {MODULE} v{HELM}", *(f"require k8s.io/{part} {libraries}" for part in SHARED)]
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        work = Path(folder)
        (work / "go.mod").write_text("\n".join(["module test.invalid/helm", "go 1.26.0", *required, ""]))
        go(work, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(work / "helm"), f"{MODULE}/cmd/helm")
        (work / "helm").replace(target)
    return target


def main() -> int:
    """Find or build, and print where."""
    helm = found()
    if helm is None:
        if not shutil.which("go"):
            sys.stderr.write(f"{ABSENT}\n")
            return NOT_AVAILABLE
        sys.stderr.write(f"building helm {HELM} into {place().parent}; this takes a minute or more, once\n")
        try:
            helm = build()
        except RuntimeError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    sys.stdout.write(f"{helm}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
