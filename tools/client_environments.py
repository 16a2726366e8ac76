"""Installs the Kubernetes clients of several languages for tests against ``pumice up``; prints their folder.

python -m tools.client_environments

The clients are installed once, outside of the checkout and of its virtual environment, into the user's cache directory:
a virtual environment with the Python clients, a folder with the JavaScript client, and a program built with client-go.
Each needs the tools of its language; a client whose tools are missing is reported and left out, and its test skipped.
Without any client the tool exits with status 3.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.kubernetes_binaries import NOT_AVAILABLE, go

PYTHON_PACKAGES: Final = ("kubernetes==37.0.2", "kr8s==0.20.15", "lightkube==1.0.1")
NODE_PACKAGES: Final = ("@kubernetes/client-node@1.3.0",)
GO_PROGRAM: Final = Path(__file__).parents[1] / "tests" / "clients" / "programs" / "client_go"
PYTHON, NODE, CLIENT_GO = "python", "node", "client-go"
"""What the folder holds: an environment, a folder with ``node_modules``, and a program."""


def cache() -> Path:
    """The folder of the clients in these versions."""
    home = os.environ.get("XDG_CACHE_HOME")
    program = ((GO_PROGRAM / name).read_text() for name in ("go.mod", "go.sum", "main.go"))
    texts = [*PYTHON_PACKAGES, *NODE_PACKAGES, *program]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
    return (Path(home) if home else Path.home() / ".cache") / "pumice" / f"clients-{digest}"


def _install_python(folder: Path) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(folder / "bin" / "pip"), "install", "--quiet", *PYTHON_PACKAGES])


def _install_node(folder: Path) -> None:
    folder.mkdir()
    _run(["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", *NODE_PACKAGES])


def _build_client_go(program: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        module = Path(place) / "module"
        shutil.copytree(GO_PROGRAM, module)
        go(module, "build", "-p", "1", "-trimpath", "-o", str(program), ".")


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} failed:\n{done.stderr[-2000:]}")


INSTALLERS: Final[Mapping[str, tuple[str, Callable[[Path], None]]]] = {
    PYTHON: (sys.executable, _install_python),
    NODE: ("npm", _install_node),
    CLIENT_GO: ("go", _build_client_go),
}
"""For each part of the folder the program that it needs, and how it is installed."""


def install() -> Path | None:
    """Install what is missing and can be installed; None if there is nothing in the end."""
    target = cache()
    target.mkdir(parents=True, exist_ok=True)
    for name, (needed, installer) in INSTALLERS.items():
        if (target / name).exists():
            continue
        if not shutil.which(needed):
            sys.stderr.write(f"{name}: there is no {needed} to install the client with\n")
            continue
        sys.stderr.write(f"{name}: installing into {target}; this takes a minute or more, once\n")
        try:
            installer(target / name)
        except RuntimeError as error:
            sys.stderr.write(f"{name}: {error}\n")
            _remove(target / name)
    return target if any((target / name).exists() for name in INSTALLERS) else None


def _remove(path: Path) -> None:
    """Remove what was half installed, lest it is taken for whole."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def main() -> int:
    """Install, and print where."""
    os.nice(10)
    place = install()
    if place is None:
        return NOT_AVAILABLE
    sys.stdout.write(f"{place}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
