"""Addresses, and who can reach them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stentor.config import Address, check_exposure, is_loopback
from stentor.model.errors import ConfigError, InvalidInput


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:7420", "127.0.0.1", 7420),
        ("[::1]:0", "::1", 0),
        ("localhost:65535", "localhost", 65535),
        ("broker-1.example.org:80", "broker-1.example.org", 80),
    ],
)
def test_addresses_are_read(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == Address(host, port)
    assert str(Address(host, port)) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "host:port"),
        ("7420", "host:port"),
        ("127.0.0.1", "host:port"),
        ("127.0.0.1:", "port from 0 to 65535"),
        ("127.0.0.1:65536", "port from 0 to 65535"),
        ("127.0.0.1:-1", "port from 0 to 65535"),
        ("127.0.0.1:٣", "port from 0 to 65535"),
        (":7420", "without a host"),
        ("::1:7420", "brackets"),
        ("[127.0.0.1]:7420", "not an IPv6 address"),
        ("256.0.0.1:7420", "neither an IPv4 address nor a host name"),
        ("127.1:7420", "neither an IPv4 address nor a host name"),
        ("*:7420", "neither an IPv4 address nor a host name"),
        ("a b:7420", "neither an IPv4 address nor a host name"),
    ],
)
def test_texts_that_are_no_address_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Address.parse(text)


@settings(deadline=None)
@given(st.text(max_size=20))
def test_any_text_is_an_address_or_invalid(text: str) -> None:
    try:
        address = Address.parse(text)
    except InvalidInput:
        return
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("host", ["127.0.0.1", "127.255.0.9", "::1", "localhost", "LocalHost"])
def test_loopback_needs_nothing(host: str) -> None:
    assert is_loopback(host)
    check_exposure(Address(host, 7420), secured=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "::ffff:127.0.0.1", "localhost.evil.org"])
def test_any_other_address_needs_tls(host: str) -> None:
    assert not is_loopback(host)
    check_exposure(Address(host, 7420), secured=True)
    with pytest.raises(ConfigError, match="stentor certs init"):
        check_exposure(Address(host, 7420), secured=False)


def test_addresses_that_collide_are_found() -> None:
    assert Address("localhost", 1).collides(Address("127.0.0.1", 1))
    assert Address("::1", 1).collides(Address("0:0:0:0:0:0:0:1", 1))
    assert not Address("127.0.0.1", 0).collides(Address("127.0.0.1", 0))
    assert not Address("127.0.0.1", 1).collides(Address("127.0.0.1", 2))
    assert not Address("127.0.0.1", 1).collides(Address("127.0.0.2", 1))
