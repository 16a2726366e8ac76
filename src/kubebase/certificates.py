"""Self-issued TLS certificates: a certificate authority and the one server certificate that it signs.

The key of the authority is discarded as soon as it has signed. A client that trusts the authority therefore trusts
exactly one certificate, and there is one secret less to keep. A renewed certificate comes with a new authority; clients
trust both for a while.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(hours=1)
"""How much earlier a certificate becomes valid, for clients whose clocks are behind."""
VALID = timedelta(days=365)
REMEMBERED = 4
"""The number of earlier authorities that stay trusted; a limit, should renewals repeat."""

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server certificate, its key, and the authorities that clients trust; all in PEM."""

    authorities: bytes
    """The authority that has signed it, followed by earlier authorities that are still trusted."""
    certificate: bytes
    key: bytes


def issue(
    names: Iterable[str], now: datetime | None = None, valid: timedelta = VALID, *, common_name: str = "server"
) -> Certificate:
    """A certificate for a server with these names or addresses."""
    now = now or datetime.now(UTC)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    serial = x509.random_serial_number()
    # Each authority has a unique name, by which clients choose among several.
    issuer = _named(f"{common_name}-ca-{serial & 0xFFFFFFFF:08x}")
    authority = (
        _unsigned(issuer, issuer, authority_key, now, valid, serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        _unsigned(_named(common_name), issuer, key, now, valid, x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_name(name) for name in dict.fromkeys(names)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    secret = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificate(authority.public_bytes(_PEM), server.public_bytes(_PEM), secret)


def renewed(
    old: Certificate, names: Iterable[str], now: datetime, valid: timedelta = VALID, *, common_name: str = "server"
) -> Certificate:
    """A new certificate, also for the names of the old one; clients of the old one trust both while they are valid.

    Otherwise servers with different names, as during a rolling update, would renew each other's certificate forever.
    """
    new = issue([*names, *_names_in(old)], now, valid, common_name=common_name)
    try:
        known = x509.load_pem_x509_certificates(old.authorities)
    except ValueError:
        known = []
    kept = [one.public_bytes(_PEM) for one in known if one.not_valid_after_utc > now]
    return Certificate(b"".join([new.authorities, *kept[:REMEMBERED]]), new.certificate, new.key)


def signer(found: Certificate) -> bytes:
    """The authority that has signed a certificate, without the earlier ones."""
    first, end, _ = found.authorities.partition(b"-----END CERTIFICATE-----")
    return first + end


def serves(found: Certificate, names: Iterable[str], now: datetime, early: timedelta = timedelta(0)) -> bool:
    """Whether a certificate is intact, covers all these names, is valid now and for at least ``early``.

    A certificate that is not valid yet was issued by a host whose clock is ahead: clients would reject it until then.
    """
    try:
        loaded = x509.load_pem_x509_certificate(found.certificate)
        authority = x509.load_pem_x509_certificates(found.authorities)[0]
        key = serialization.load_pem_private_key(found.key, None)
        loaded.verify_directly_issued_by(authority)
        listed = list(loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        fits = loaded.public_key() == key.public_key()
    except (ValueError, TypeError, IndexError, InvalidSignature, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return False
    begins = max(loaded.not_valid_before_utc, authority.not_valid_before_utc)
    lasts = min(loaded.not_valid_after_utc, authority.not_valid_after_utc)
    return fits and begins <= now and lasts > now + early and all(_name(name) in listed for name in names)


def _names_in(found: Certificate) -> list[str]:
    """The names in a certificate; none if it cannot be parsed."""
    try:
        loaded = x509.load_pem_x509_certificate(found.certificate)
        listed = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return []
    return [str(one.value) for one in listed]


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, valid: timedelta, serial: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + valid)
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
