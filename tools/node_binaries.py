"""Finds kubelet, containerd and the other programs of a Kubernetes node, or builds them; prints their folder.

python -m tools.node_binaries

They are built from the Go module registry, by module name and version, into a folder of the user's cache directory,
beside the API server of ``kubernetes_binaries``, which is built too if it is missing: 14 minutes of CPU time for all,
once. Exit status 3, and a line with the reason, where this machine can build or run no node. With ``--check``
also where something would have to be built.

runc is the exception: it needs C and libseccomp. It is taken from ``PATH``, or unpacked from the package of the
distribution where ``apt-get`` can download it. That installs nothing and starts no service on this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools import kubernetes_binaries
from tools.kubernetes_binaries import BUILT, KUBERNETES, NOT_AVAILABLE, build_kubernetes, cache, go, missing

CONTAINERD, CNI = "2.2.9", "1.9.1"
OF_KUBERNETES = ("kubelet", "kube-scheduler")
OF_CONTAINERD = ("containerd", "containerd-shim-runc-v2", "ctr")
OF_CNI = {"bridge": "main", "loopback": "main", "host-local": "ipam"}
PAUSE = "pause"
RUNC = "runc"
PROGRAMS = (*OF_KUBERNETES, *OF_CONTAINERD, *OF_CNI, PAUSE, RUNC)
ON_PATH = ("kubectl", "ip", "ldd", "mount", "nsenter", "umount", "unshare")
"""What nodes are set up with; every distribution has these."""

PAUSE_SOURCE = """
// The first container of every pod: it holds the pod's network open, and does nothing.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
}
"""


def folder() -> Path:
    """Where the programs stay once they are built."""
    return cache().parent / f"node-{KUBERNETES}-containerd-{CONTAINERD}-cni-{CNI}"


def needed() -> list[str]:
    """The programs that have to be built, those of the control plane included."""
    return [*missing(cache(), BUILT), *missing(folder(), PROGRAMS)]


def unavailable() -> str:
    """Why this machine can run no node, or cannot build what is missing; empty if it can."""
    if os.geteuid() != 0:
        return "only root can make the namespaces of a node"
    if absent := [name for name in ON_PATH if not shutil.which(name)]:
        return f"there is no {', no '.join(absent)} on PATH"
    lacking = needed()
    if set(lacking) - {RUNC} and not shutil.which("go"):
        return f"there is no Go to build {', '.join(lacking)} with"
    if RUNC in lacking and not shutil.which(RUNC) and not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return "there is no runc on PATH, and no apt-get and dpkg-deb to fetch its package with"
    return ""


def build() -> Path:
    """Build what is missing. The folder gets programs that are complete only."""
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    if missing(cache(), BUILT):
        kubernetes_binaries.build()
    lacking = missing(target, PROGRAMS)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        work = Path(place)
        sys.stderr.write(f"building {', '.join(lacking)} into {target}; this takes some minutes, once\n")
        build_kubernetes(work, [name for name in OF_KUBERNETES if name in lacking])
        _build_containerd(work, [name for name in OF_CONTAINERD if name in lacking])
        _build_cni(work, [name for name in OF_CNI if name in lacking])
        if PAUSE in lacking:
            _build_pause(work)
        if RUNC in lacking:
            _take_runc(work)
        for name in lacking:
            (work / name).replace(target / name)
    return target


def _build_containerd(work: Path, names: Sequence[str]) -> None:
    if not names:
        return
    path = "github.com/containerd/containerd/v2"
    module = _module(work, "containerd", f"require {path} v{CONTAINERD}")
    flags = f"-s -w -X {path}/version.Version=v{CONTAINERD}"
    for name in names:
        go(module, "build", "-trimpath", "-ldflags", flags, "-o", str(work / name), f"{path}/cmd/{name}")


def _build_cni(work: Path, names: Sequence[str]) -> None:
    if not names:
        return
    path = "github.com/containernetworking/plugins"
    module = _module(work, "cni", f"require {path} v{CNI}")
    for name in names:
        package = f"{path}/plugins/{OF_CNI[name]}/{name}"
        go(module, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(work / name), package)


def _build_pause(work: Path) -> None:
    module = _module(work, PAUSE)
    (module / "main.go").write_text(PAUSE_SOURCE)
    go(module, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(work / PAUSE), ".")


def _module(work: Path, name: str, *requirements: str) -> Path:
    module = work / f"{name}-module"
    module.mkdir()
    (module / "go.mod").write_text("\n".join([f"module test.invalid/{name}", "go 1.26.0", *requirements, ""]))
    return module


def _take_runc(work: Path) -> None:
    """Copy the runc of this machine, or unpack the one that its distribution ships."""
    if on_path := shutil.which(RUNC):
        shutil.copy2(on_path, work / RUNC)
        return
    packaged_program(RUNC, RUNC, work)


def packaged_program(package: str, name: str, target: Path) -> Path:
    """Put a program of a package of the distribution into a folder. Nothing is installed."""
    packages = target / "packages"
    packages.mkdir()
    _run(packages, "apt-get", "download", "-q", package)
    (archive,) = packages.glob("*.deb")
    _run(packages, "dpkg-deb", "--extract", str(archive), "unpacked")
    found = packages.glob(f"unpacked/**/*bin/{name}")
    (program,) = (path for path in found if path.is_file() and not path.is_symlink())
    program.replace(target / name)
    shutil.rmtree(packages)
    return target / name


def _run(place: Path, *command: str) -> None:
    # apt-get drops its privileges for a download, and cannot where the folder is root's alone.
    place.chmod(0o755)
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")


def main(arguments: Sequence[str]) -> int:
    """Find or build, and print where."""
    lacking = needed()
    reason = unavailable()
    if not reason and lacking and "--check" in arguments:
        reason = f"{', '.join(lacking)} would have to be built first"
    if reason:
        sys.stderr.write(f"{reason}\n")
        return NOT_AVAILABLE
    if lacking:
        try:
            build()
        except RuntimeError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    sys.stdout.write(f"{folder()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
