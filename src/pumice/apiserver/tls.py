"""Certificates for a server that is reached from elsewhere: an authority of its own, and what it signs.

They are made once and kept, so that a kubeconfig goes on to trust them. Nobody but the owner may read the key of the
server; that of the authority is thrown away.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pumice.apiserver.private import write_private

DAYS = 365
BACKDATED = timedelta(hours=1)  # for clients whose clocks are behind


@dataclass(frozen=True, slots=True)
class Certificates:
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


def certificates(folder: Path, host: str) -> Certificates:
    """The certificates of a folder, made if they are missing, have run out, or do not name the host."""
    found = Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    if not _usable(found, host):
        folder.mkdir(parents=True, exist_ok=True)
        _make(found, host)
    return found


def _usable(found: Certificates, host: str) -> bool:
    try:
        loaded = x509.load_pem_x509_certificate(found.certificate.read_bytes())
        authority = x509.load_pem_x509_certificate(found.authority.read_bytes())
        key = serialization.load_pem_private_key(found.key.read_bytes(), None)
        loaded.verify_directly_issued_by(authority)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    if loaded.public_key() != key.public_key():
        return False  # a crash between one file and the next
    names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return loaded.not_valid_after_utc > datetime.now(UTC) + timedelta(days=1) and _name(host) in list(names)


def _make(found: Certificates, host: str) -> None:
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pumice-ca")])
    authority = (
        _unsigned(issuer, issuer, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    hosts = (host, socket.gethostname(), "localhost", "127.0.0.1", "::1", *_outward())
    names = [_name(name) for name in dict.fromkeys(hosts)]
    server = (
        _unsigned(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pumice")]), issuer, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    found.authority.write_bytes(authority.public_bytes(pem))
    found.certificate.write_bytes(server.public_bytes(pem))
    write_private(
        found.key,
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _unsigned(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=DAYS))
    )


def _outward() -> Iterator[str]:
    """The addresses of this machine from which it would speak to others. Nothing is sent to find out."""
    for family, far_away in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far_away, 9))
            yield probe.getsockname()[0].partition("%")[0]


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
