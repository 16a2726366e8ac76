"""A document as bytes: encoded once, compressed once, and sent to every viewer who asks."""

from __future__ import annotations

import gzip
from functools import cached_property
from hashlib import blake2b

import msgspec

from pumice.ui.values import Document

SMALL = 1400
"""Bytes below which compression saves nothing: a single packet."""
GZIP_LEVEL = 5


class EncodedDocument:
    """The bytes of a document."""

    def __init__(self, document: Document) -> None:
        self.plain = msgspec.json.encode(document)

    @cached_property
    def gzipped(self) -> bytes | None:
        """The compressed bytes; None if the document is small."""
        return gzip.compress(self.plain, GZIP_LEVEL, mtime=0) if len(self.plain) >= SMALL else None

    @cached_property
    def etag(self) -> str:
        """The entity tag of the content."""
        return f'"{blake2b(self.plain, digest_size=12).hexdigest()}"'
