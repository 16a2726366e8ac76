"""Server certificates in the files of a folder.

They are issued once and kept, so that a kubeconfig continues to trust them. Only the owner may read the key.
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
"""A certificate that expires sooner is renewed."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The paths of the certificate files."""

    authority: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """The TLS context of a server with these files."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        return context


def load_or_issue_certificates(folder: Path, host: str, common_name: str = "kubesim") -> CertificateFiles:
    """The certificates of a folder, issued if they are missing, expired, or do not cover the host."""
    found = CertificateFiles(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    if not _usable(found, host):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(found, host, common_name)
    return found


def _usable(found: CertificateFiles, host: str) -> bool:
    """Whether the files match (a crash may have interrupted their writing) and stay valid for a while."""
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
    """The outgoing addresses of this machine. No packet is sent to find them."""
    for family, far_away in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far_away, 9))
            yield probe.getsockname()[0].partition("%")[0]
