"""Limits: defaults that work, and a configuration that cannot set nonsense."""

import msgspec
import pytest

from stentor.model.limits import Count, Limits


def test_the_defaults_pass_their_own_checks() -> None:
    assert msgspec.convert(msgspec.to_builtins(Limits()), Limits) == Limits()
    assert Limits().largest_body == 1 << 20
    assert Limits().hello_within == 3.0


@pytest.mark.parametrize("name", ["largest_body", "window", "queue"])
@pytest.mark.parametrize("size", [0, 1023, (1 << 32) + 1, -1, 1.5, "1024", None])
def test_sizes_are_whole_and_between_1_kib_and_4_gib(name: str, size: object) -> None:
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.convert({name: size}, Limits)
    assert getattr(msgspec.convert({name: 1024}, Limits), name) == 1024


@pytest.mark.parametrize("name", ["heartbeat", "hello_within"])
@pytest.mark.parametrize("seconds", [0, -1.0, 3600.1, float("inf"), "5"])
def test_times_are_positive_and_at_most_an_hour(name: str, seconds: object) -> None:
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.convert({name: seconds}, Limits)


COUNTS = [field.name for field in msgspec.structs.fields(Limits) if field.type == Count]


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_at_least_one(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.convert({name: 0}, Limits)
    assert getattr(msgspec.convert({name: 1}, Limits), name) == 1


def test_an_unknown_limit_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="largest_bodies"):
        msgspec.convert({"largest_bodies": 1024}, Limits)
