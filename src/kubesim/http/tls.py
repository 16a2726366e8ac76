"""Certificates for a server that is reached from elsewhere, in the files of a folder.

They are made once and kept, so that a kubeconfig goes on to trust them. Nobody but the owner may read the key.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kubebase.certificates import Certificate, issue, serves
from kubesim.private_file import write_private

LEAST = timedelta(days=1)
"""What runs out sooner is made anew."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where the files are."""

    authority: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """What a server needs to speak TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        return context


def load_or_issue_certificates(folder: Path, host: str, common_name: str = "kubesim") -> CertificateFiles:
    """The certificates of a folder, made if they are missing, have run out, or do not name the host."""
    found = CertificateFiles(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    if not _usable(found, host):
        folder.mkdir(parents=True, exist_ok=True)
        _make(found, host, common_name)
    return found


def _usable(found: CertificateFiles, host: str) -> bool:
    """Whether the files belong together (a crash may have come between one and the next) and are good for a while."""
    try:
        read = Certificate(found.authority.read_bytes(), found.certificate.read_bytes(), found.key.read_bytes())
    except OSError:
        return False
    return serves(read, [host], datetime.now(UTC), LEAST)


def _make(found: CertificateFiles, host: str, common_name: str) -> None:
    made = issue((host, socket.gethostname(), "localhost", "127.0.0.1", "::1", *_outward()), common_name=common_name)
    found.authority.write_bytes(made.authorities)
    found.certificate.write_bytes(made.certificate)
    write_private(found.key, made.key)


def _outward() -> Iterator[str]:
    """The addresses of this machine from which it would speak to others. Nothing is sent to find out."""
    for family, far_away in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far_away, 9))
            yield probe.getsockname()[0].partition("%")[0]
