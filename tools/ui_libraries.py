"""The libraries that the pages of ``pumice ui`` ship: checks them against their list, or copies them anew.

The pages need no build step, so ``src/pumice/ui/web/vendor/libraries.json`` is what a lock file would be: name,
version, licence, reason, and the SHA-256 of each file. axe-core, which only the browser tests load, stands in it too.

python -m tools.ui_libraries [--copy]

Compares files and list. With ``--copy``, after ``npm ci`` in tools/ui, it takes the files from there and writes their
hashes into the list. A browser resolves no bare module names and would look for source maps that are not shipped, so
both are changed while copying; nothing else is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "src/pumice/ui/web/vendor/libraries.json"
MODULES = ROOT / "tools/ui/node_modules"


class LibraryFile(TypedDict):
    """A file in the checkout, its origin in the npm package, and the hash of its bytes."""

    path: str
    origin: str
    sha256: str


class Library(TypedDict):
    """One npm package."""

    name: str
    version: str
    licence: str
    reason: str
    files: list[LibraryFile]


def libraries() -> list[Library]:
    """The list, as it is written."""
    found: list[Library] = json.loads(LIST.read_text())
    return found


def differences(root: Path = ROOT) -> list[str]:
    """One line for each listed file that is missing or has other bytes, and for each script that is not listed."""
    found = []
    listed = set()
    for library in libraries():
        for file in library["files"]:
            path = root / file["path"]
            listed.add(path)
            if not path.is_file():
                found.append(f"{file['path']}: missing ({library['name']} {library['version']})")
            elif _sha256(path.read_bytes()) != file["sha256"]:
                found.append(f"{file['path']}: not the file of {library['name']} {library['version']} that is listed")
    folder = root / LIST.parent.relative_to(ROOT)
    shipped = {path for path in folder.iterdir() if path.suffix in {".js", ".css"}}
    return found + [f"{path.relative_to(root)}: not listed in {LIST.name}" for path in sorted(shipped - listed)]


def copy() -> None:
    """Copy every file from tools/ui/node_modules, and write the hashes into the list."""
    found = libraries()
    for library in found:
        package = MODULES / library["name"]
        library["version"] = json.loads((package / "package.json").read_text())["version"]
        for file in library["files"]:
            content = (package / file["origin"]).read_bytes()
            if file["path"].endswith(".js"):
                content = _for_browsers(content.decode()).encode()
            path = ROOT / file["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            file["sha256"] = _sha256(content)
    LIST.write_text(json.dumps(found, indent=2) + "\n")


def _for_browsers(script: str) -> str:
    script = re.sub(r'from\s*"preact"', 'from"./preact.js"', script)
    return re.sub(r"\n?//# sourceMappingURL=\S+\n?", "\n", script)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main() -> int:
    """Run as a command; 1 if files and list differ."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--copy", action="store_true", help="copy the files from tools/ui/node_modules")
    if parser.parse_args().copy:
        copy()
    found = differences()
    sys.stderr.writelines(line + "\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
