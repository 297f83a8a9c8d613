"""TLS: who may talk to whom, and a development authority that makes the certificates.

A *certificate directory* holds ca.pem (whom to trust), cert.pem and key.pem (who one is), and perhaps revoked.pem (whom
to trust no longer). Both sides of a link show a certificate; the subject's common name is the principal, and URIs among
a node's alternative names are the places that it may take.
"""

import os
import re
import ssl
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stentor.config import CERTIFICATE_FILES, is_host_name
from stentor.model.errors import ConfigError, InvalidInput, Refusal, Refused
from stentor.model.trust.access import ANONYMOUS
from stentor.model.trust.place import EVERYWHERE, SCHEME

E = TypeVar("E", bound=x509.ExtensionType)

AUTHORITY, CERTIFICATE, KEY = CERTIFICATE_FILES
AUTHORITY_KEY = "ca.key"
REVOKED = "revoked.pem"  # beside an authority, and in each certificate directory that is to know
AUTHORITY_NAME = "Stentor development authority"
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
LONGEST_NAME = 64  # characters of a common name in X.509

_PRINCIPAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*")
_ATTRIBUTES = {  # of a certificate's subject, as OpenSSL calls them and as people write them
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
}
_CLOCK_SKEW = timedelta(minutes=5)  # a certificate begins a little early, for peers whose clock is behind
_OPEN, _SECRET = 0o644, 0o600


def server_context(directory: Path) -> ssl.SSLContext:
    """For the side that listens: TLS 1.3 or newer, and only clients with a certificate of the authority."""
    _check_files(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # each link shows its certificate again, none is resumed
    return _filled(context, directory)


def client_context(directory: Path) -> ssl.SSLContext:
    """For the side that dials: TLS 1.3 or newer, and only a server of the authority with the name that was dialled."""
    _check_files(directory)
    return _filled(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), directory)


def principal_of(peer: ssl.SSLObject | ssl.SSLSocket | Mapping[str, Any] | None) -> str:
    """Who the other side is: the common name of the certificate that it showed."""
    certificate = peer.getpeercert() if isinstance(peer, ssl.SSLObject | ssl.SSLSocket) else peer
    subject: Any = (certificate or {}).get("subject", ())
    names = [value for part in subject for kind, value in part if kind == "commonName"]
    if len(names) != 1 or not names[0]:
        raise Refused(Refusal.UNAUTHENTICATED, "expected a certificate with one common name; `stentor certs` makes one")
    name = str(names[0])
    if not name.isprintable() or name == ANONYMOUS:  # a NUL would make one principal's ids another's
        raise Refused(
            Refusal.UNAUTHENTICATED, f"{name[:LONGEST_NAME]!r} cannot be a principal: make another certificate"
        )
    return name


def attributes_of(peer: ssl.SSLObject | ssl.SSLSocket) -> tuple[str, ...]:
    """What the certificate that the other side showed says of its subject beside its name, such as OU=trading."""
    subject: Any = (peer.getpeercert() or {}).get("subject", ())
    return tuple(f"{_ATTRIBUTES[kind]}={value}" for part in subject for kind, value in part if kind in _ATTRIBUTES)


def own_principal(directory: Path) -> str:
    """Who the holder of a certificate directory is to others."""
    names = read_certificates(directory / CERTIFICATE)[0].subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1:
        raise ConfigError(f"{directory / CERTIFICATE}: expected one common name; `stentor certs` makes such a one")
    return str(names[0].value)


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """What the other side of a link showed."""

    issuer: bytes
    serial: int
    ends: float  # seconds since 1970
    is_node: bool  # it may be dialled
    places: tuple[str, ...]  # that it names


def peer_certificate(peer: ssl.SSLObject | ssl.SSLSocket) -> PeerCertificate:
    """Return what the certificate that the other side showed says, besides its name."""
    try:
        shown = x509.load_der_x509_certificate(peer.getpeercert(binary_form=True) or b"")
        usages = _extension(shown, x509.ExtendedKeyUsage)
        names = _extension(shown, x509.SubjectAlternativeName)
        uris = names.get_values_for_type(x509.UniformResourceIdentifier) if names is not None else []
        places = [uri.removeprefix(SCHEME) for uri in uris if uri.startswith(SCHEME)]
        return PeerCertificate(
            issuer=shown.issuer.public_bytes(),
            serial=shown.serial_number,
            ends=shown.not_valid_after_utc.timestamp(),
            is_node=usages is not None and ExtendedKeyUsageOID.SERVER_AUTH in usages,
            places=tuple(place for place in places if place.startswith(EVERYWHERE)),
        )
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise Refused(Refusal.UNAUTHENTICATED, f"a certificate that cannot be read: {error}") from None


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """What a certificate directory holds, in PEM."""

    authority: bytes
    certificate: bytes
    key: bytes

    def save(self, directory: Path, *, force: bool = False) -> None:
        refuse_existing([directory / name for name in CERTIFICATE_FILES], force=force)
        _forget_revoked(directory)
        replace_file(directory / AUTHORITY, self.authority, _OPEN)
        replace_file(directory / KEY, self.key, _SECRET)
        replace_file(directory / CERTIFICATE, self.certificate, _OPEN)


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs the certificates of nodes and clients. For development: its key lies unencrypted on a disk."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, *, valid: timedelta, now: datetime, name: str = AUTHORITY_NAME) -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_subject(name), key, now, now + valid)
            .issuer_name(_subject(name))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, directory: Path) -> "Authority":
        certificate = read_certificates(directory / AUTHORITY)[0]
        key = _read_key(directory / AUTHORITY_KEY)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ConfigError(f"{directory / AUTHORITY_KEY}: not the key of {directory / AUTHORITY}")
        return cls(certificate, key)

    def save(self, directory: Path, *, force: bool = False) -> None:
        refuse_existing([directory / AUTHORITY, directory / AUTHORITY_KEY], force=force)
        _forget_revoked(directory)
        replace_file(directory / AUTHORITY_KEY, _pem_of_key(self.key), _SECRET)
        replace_file(directory / AUTHORITY, _pem(self.certificate), _OPEN)

    def issue_node(
        self, name: str, hosts: Iterable[str], *, valid: timedelta, now: datetime, places: Iterable[str] = EVERYWHERE
    ) -> CertificateFiles:
        """For a node that is dialled by these host names and addresses, and by those of its own machine.

        It may take these places in the fabric; without any it may take none.
        """
        names = [_general_name(host) for host in dict.fromkeys((*hosts, *LOOPBACK_HOSTS))]
        names += [x509.UniformResourceIdentifier(SCHEME + place) for place in places]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]  # nodes dial each other too
        return self._issue(name, usages, names, valid, now)

    def issue_client(self, principal: str, *, valid: timedelta, now: datetime) -> CertificateFiles:
        check_principal(principal)
        return self._issue(principal, [ExtendedKeyUsageOID.CLIENT_AUTH], [], valid, now)

    def revoke(self, serials: Iterable[int], former: bytes, now: datetime) -> bytes:
        """Return a list of revoked certificates, in PEM: those of a former list of this authority, and these."""
        entries = {each.serial_number: each for each in x509.load_pem_x509_crl(former)} if former else {}
        for serial in serials:
            made = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            entries.setdefault(serial, made)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now)
            .next_update(self.certificate.not_valid_after_utc)
        )
        for entry in entries.values():
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _issue(
        self,
        name: str,
        usages: Sequence[x509.ObjectIdentifier],
        names: Sequence[x509.GeneralName],
        valid: timedelta,
        now: datetime,
    ) -> CertificateFiles:
        end = self.certificate.not_valid_after_utc
        if end <= now:
            raise ConfigError(f"the authority expired on {end:%Y-%m-%d}: make a new one with --force")
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(_subject(name), key, now, min(now + valid, end))
            .issuer_name(self.certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return CertificateFiles(_pem(self.certificate), _pem(certificate), _pem_of_key(key))


def check_principal(principal: str) -> str:
    """The principal itself, if a client can be called so."""
    if not _PRINCIPAL.fullmatch(principal) or len(principal) > LONGEST_NAME or principal == ANONYMOUS:
        raise InvalidInput(
            f"{principal!r} cannot be a principal: expected at most {LONGEST_NAME} letters, digits, '.', '_', '@', "
            f"'+' and '-', beginning with a letter, a digit or '_', and not {ANONYMOUS!r}"
        )
    return principal


def refuse_existing(paths: Iterable[Path], *, force: bool) -> None:
    """Keys are not overwritten unless that was asked for: whoever holds the old ones would be locked out."""
    for path in paths:
        try:
            exists = path.exists() or path.is_symlink()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
        if exists and not force:
            raise ConfigError(f"{path} exists already: choose another directory, or replace it with --force")


def _forget_revoked(directory: Path) -> None:
    """A list of an authority that was replaced is of no use, and would be taken for a forged one."""
    try:
        (directory / REVOKED).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory / REVOKED}: cannot be removed: {error.strerror}") from error


def _filled(context: ssl.SSLContext, directory: Path) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(cafile=directory / AUTHORITY)
        context.load_cert_chain(directory / CERTIFICATE, directory / KEY)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{directory}: the certificates cannot be used: {error}") from error
    return context


def _check_files(directory: Path) -> None:
    """Says what is wrong in words, where OpenSSL would say it in codes or not before the first link."""
    trusted = read_certificates(directory / AUTHORITY)
    chain = read_certificates(directory / CERTIFICATE)
    key = _read_key(directory / KEY)
    if chain[0].public_key() != key.public_key():
        raise ConfigError(f"{directory / KEY}: not the key of {directory / CERTIFICATE}")
    issuer = next((candidate for candidate in trusted if _issued(chain[-1], candidate)), None)
    if issuer is None:
        raise ConfigError(
            f"{directory / CERTIFICATE}: not signed by the authority in {directory / AUTHORITY}; "
            "make it again with `stentor certs node` or `stentor certs client`"
        )
    now = datetime.now(UTC)
    for path, certificate in ((directory / CERTIFICATE, chain[0]), (directory / AUTHORITY, issuer)):
        if certificate.not_valid_after_utc < now:
            raise ConfigError(f"{path}: expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")
        if certificate.not_valid_before_utc > now:
            raise ConfigError(
                f"{path}: not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC; is the clock right?"
            )


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; `stentor certs init` makes an authority and certificates") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def read_certificates(path: Path) -> list[x509.Certificate]:
    content = _read(path)
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise ConfigError(f"{path}: expected a certificate in PEM: {error}") from error


def _read_key(path: Path) -> PrivateKeyTypes:
    content = _read(path)
    try:
        return serialization.load_pem_private_key(content, password=None)
    except TypeError as error:
        raise ConfigError(f"{path}: expected a private key without a password, found an encrypted one") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path}: expected a private key in PEM: {error}") from error


def replace_file(path: Path, content: bytes, mode: int = _OPEN) -> None:
    """All or nothing, and never readable by others for a moment."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink()
            raise
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _subject(name: str) -> x509.Name:
    if not 0 < len(name) <= LONGEST_NAME:
        raise InvalidInput(f"{name!r} does not fit in a certificate: expected 1 to {LONGEST_NAME} characters")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        address = ip_address(host)
    except ValueError:
        if not is_host_name(host):
            raise InvalidInput(f"{host!r} is neither a host name nor an address (no port, no brackets)") from None
        return x509.DNSName(host)
    if address.is_unspecified:
        raise InvalidInput(f"{host} can be listened on, but not dialled: name the host as clients dial it")
    return x509.IPAddress(address)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
