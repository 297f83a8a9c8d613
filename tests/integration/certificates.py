"""Certificates that `stentor certs` does not make: for subjects that only another authority would write down."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from stentor.runtime.tls import Authority

_VALID = timedelta(days=1)
_PEM = serialization.Encoding.PEM


def issue_client(authority: Authority, home: Path, *subject: x509.NameAttribute[str]) -> None:
    """Make a client's certificate directory for a subject of these attributes."""
    now, key = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(list(subject)))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    home.mkdir()
    (home / "ca.pem").write_bytes(authority.certificate.public_bytes(_PEM))
    (home / "cert.pem").write_bytes(certificate.public_bytes(_PEM))
    plain = serialization.NoEncryption()
    (home / "key.pem").write_bytes(key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain))
