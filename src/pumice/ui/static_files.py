"""The files of the page: read from the package once, and kept as bytes."""

from __future__ import annotations

import gzip
import mimetypes
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

WEB = Path(__file__).parent / "web"
INDEX = "index.html"
COMPRESSED = ("text/", "application/javascript", "application/json", "image/svg+xml")
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent."""

    content: bytes
    gzipped: bytes | None
    type: str
    etag: str


class StaticFiles:
    """The files of a folder by their path in it. A file that changed on disk is read again."""

    def __init__(self, folder: Path = WEB) -> None:
        self._folder = folder.resolve()
        self._known: dict[str, tuple[int, StaticFile]] = {}

    def get(self, path: str) -> StaticFile | None:
        """The file of a path below the folder; None if there is none."""
        if "\0" in path:
            return None
        file = (self._folder / path).resolve()
        if not file.is_relative_to(self._folder) or not file.is_file():
            return None
        changed = file.stat().st_mtime_ns
        known = self._known.get(path)
        if known is None or known[0] != changed:
            known = self._known[path] = (changed, _read(file))
        return known[1]


def _read(file: Path) -> StaticFile:
    content = file.read_bytes()
    kind = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    small = gzip.compress(content, 9, mtime=0) if kind.startswith(COMPRESSED) and len(content) > 1400 else None
    return StaticFile(content, small, kind, f'"{blake2b(content, digest_size=12).hexdigest()}"')
