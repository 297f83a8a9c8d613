"""Which certificates hold no longer: those that an authority revoked, and those that have expired.

The list of revoked certificates is `revoked.pem` in a certificate directory: one or more lists of authorities that
ca.pem trusts, as `stentor certs revoke` makes them. It is read again when it changes. A list that cannot be used never
replaces one that could: the last good one stays in force.
"""

import math
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from stentor.machine import LinkOpened, Report
from stentor.model.errors import ConfigError, Refusal, Refused
from stentor.model.ids import LinkId
from stentor.runtime.driver import Driver
from stentor.runtime.link import Link
from stentor.runtime.tls import (
    AUTHORITY,
    REVOKED,
    PeerCertificate,
    attributes_of,
    peer_certificate,
    principal_of,
    read_certificates,
)

CHECK_EVERY = 1.0  # seconds
_LIST = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----", re.DOTALL)


class Trust:
    """Looks at the certificates of peers when links open, and again every second as long as they last."""

    def __init__(self, directory: Path) -> None:
        """Raises ConfigError for a list that is there and cannot be used."""
        self._path = directory / REVOKED
        self._authorities = read_certificates(directory / AUTHORITY)
        self._seen: tuple[int, int, int] | None = None  # of the file that was read last
        self._revoked: frozenset[tuple[bytes, int]] = frozenset()  # issuer and serial number
        self._has_news = False  # those who have links were not compared with the list yet
        self._links: dict[LinkId, PeerCertificate] = {}  # those of one driver that may still be open
        self._first_end = math.inf  # when the first of their certificates expires, in seconds since 1970
        self._load()

    def admit(self, driver: Driver, link: Link, *, dialled: str = "") -> LinkOpened:
        """Return who is at the other end, and watch its certificate from now on; Refused if that does not hold.

        `dialled` is the address, if we asked for the link: then the name in the certificate was checked against it.
        """
        peer = link.tls
        if peer is None:
            raise Refused(Refusal.UNAUTHENTICATED, "the link ended before it showed a certificate")
        certificate = peer_certificate(peer)
        self._refresh(driver)
        reason = self._reason(certificate)
        if reason:
            raise Refused(Refusal.UNAUTHENTICATED, reason)
        opened = LinkOpened(
            link.id,
            dialled=bool(dialled),
            principal="" if dialled else principal_of(peer),
            address=dialled or link.address,
            node=certificate.is_node,
            attributes=attributes_of(peer),
            scopes=certificate.places if certificate.is_node else (),
        )
        if not self._links:
            driver.loop.call_later(CHECK_EVERY, self._check, driver)
        self._links[link.id] = certificate
        self._first_end = min(self._first_end, certificate.ends)
        return opened

    def _check(self, driver: Driver) -> None:
        """Look at certificates again, if there may be something to see; not at all while there are no links."""
        if not driver.links:
            self._links.clear()
            return
        self._refresh(driver)
        if self._has_news or time.time() > self._first_end or len(self._links) > 2 * len(driver.links):
            self._look(driver)
        driver.loop.call_later(CHECK_EVERY, self._check, driver)

    def _look(self, driver: Driver) -> None:
        """End the links whose certificates hold no longer."""
        self._has_news = False
        self._links = {link: shown for link, shown in self._links.items() if link in driver.links}
        self._first_end = min((shown.ends for shown in self._links.values()), default=math.inf)
        for link, shown in self._links.items():
            reason = self._reason(shown)
            if reason:
                driver.end_certificate(link, reason)

    def _reason(self, certificate: PeerCertificate) -> str:
        if (certificate.issuer, certificate.serial) in self._revoked:
            return f"the certificate {certificate.serial:x} was revoked by its authority"
        if time.time() > certificate.ends:
            return f"the certificate expired on {datetime.fromtimestamp(certificate.ends, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return ""

    def _refresh(self, driver: Driver) -> None:
        try:
            self._load()
        except ConfigError as error:
            driver.report(Report("error", "the list of revoked certificates stays as it was", {"reason": str(error)}))

    def _load(self) -> None:
        """Read the list, if it is not the one that was read last."""
        try:
            about = self._path.stat()
        except OSError:
            return  # taken away, by mistake or in the middle of a change: what was revoked stays so
        seen = (about.st_mtime_ns, about.st_size, about.st_ino)
        if seen == self._seen:
            return
        self._seen = seen
        self._revoked = frozenset(revoked_in(self._path, self._authorities))
        self._has_news = True


def revoked_in(path: Path, authorities: Iterable[x509.Certificate]) -> list[tuple[bytes, int]]:
    """Return issuer and serial number of each certificate in the lists of a file."""
    trusted = list(authorities)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        lists = [x509.load_pem_x509_crl(each) for each in _LIST.findall(content)]
    except ValueError as error:
        raise ConfigError(f"{path}: expected a list of revoked certificates in PEM: {error}") from None
    if not lists:
        raise ConfigError(f"{path}: expected a list of revoked certificates in PEM, as `stentor certs revoke` makes it")
    found: list[tuple[bytes, int]] = []
    for each in lists:
        signers = [one for one in trusted if one.subject == each.issuer]
        if not any(each.is_signature_valid(one.public_key()) for one in signers):  # type: ignore[arg-type]
            raise ConfigError(f"{path}: a list that no authority in {AUTHORITY} signed")
        found += [(each.issuer.public_bytes(), entry.serial_number) for entry in each]
    return found
