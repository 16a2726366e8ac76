"""Prints the table of packages in CONTRIBUTING.md, from the import contracts in pyproject.toml and the docstrings.

python -m tools.package_table

The layers and the forbidden imports of ``[tool.importlinter]`` define which packages a package may import; the first
sentence of its docstring is its description.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
APART = ("kubesim", "kubebase")
"""Packages beside ``pumice``. Every package may import the last one."""


def contracts() -> list[dict[str, Any]]:
    """The import contracts of pyproject.toml."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    found: list[dict[str, Any]] = tools["importlinter"]["contracts"]
    return found


def layers() -> list[list[str]]:
    """The packages of each layer, from the highest to the lowest, by their full names."""
    (contract,) = (one for one in contracts() if one["type"] == "layers" and one["containers"] == ["pumice"])
    return [[f"pumice.{name.strip()}" for name in layer.split("|")] for layer in contract["layers"]]


def forbidden(package: str) -> set[str]:
    """The packages that the contracts forbid a package to import."""
    about = [one for one in contracts() if package in one.get("source_modules", ())]
    return {name for one in about for name in one["forbidden_modules"]}


def summary(package: str) -> str:
    """The first sentence of a package's docstring."""
    path = ROOT / "src" / _file(package)
    docstring = ast.get_docstring(ast.parse((path / "__init__.py" if path.is_dir() else path).read_text())) or ""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return re.split(r"\.(?:\s|$)", paragraph, maxsplit=1)[0].replace("``", "`")


def table() -> Iterator[str]:
    """The lines of the table."""
    yield "| layer | package | holds | may import |"
    yield "|---|---|---|---|"
    found = layers()
    for depth, layer in enumerate(found):
        below = [name for lower in found[depth + 1 :] for name in lower] + list(APART)
        for package in layer:
            refused = forbidden(package)
            yield _row(str(len(found) - depth), package, [name for name in below if name not in refused], below)
    for i, package in enumerate(APART):
        yield _row(str(len(APART) - i - 1), package, list(APART[i + 1 :]), [])


def _row(layer: str, package: str, allowed: list[str], below: list[str]) -> str:
    missing = [name for name in below if name not in allowed]
    if not allowed:
        imports = "none of these"
    elif len(allowed) <= 4:
        imports = ", ".join(_short(name) for name in allowed)
    else:
        imports = "all of lower layers" + (f" but {', '.join(_short(name) for name in missing)}" if missing else "")
    return f"| {layer} | `{_file(package)}` | {summary(package)} | {imports} |"


def _file(package: str) -> str:
    """The folder or module of a package, below ``src``."""
    path = package.replace(".", "/")
    return path if (ROOT / "src" / path).is_dir() else f"{path}.py"


def _short(package: str) -> str:
    return f"`{package.removeprefix('pumice.')}`"


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
