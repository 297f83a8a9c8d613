"""Channels: a list of filters, each with a say."""

import pytest

from stentor.model.batch import Rows
from stentor.policies.channel import ChannelSettings, channel_between

SETTINGS = (
    ChannelSettings(source="a", target="b", where=("n > 1", "n < 5")),
    ChannelSettings(source="b", target="a", where=("NOT EXISTS secret",)),
)


@pytest.mark.req("SC-04")
def test_every_filter_of_the_list_must_let_an_event_pass() -> None:
    channel = channel_between("a", "b", SETTINGS)
    assert channel is not None
    assert channel.admits(Rows([{"n": n} for n in range(7)])).tolist() == [n in (2, 3, 4) for n in range(7)]


@pytest.mark.req("SC-04")
def test_each_direction_is_a_channel_of_its_own() -> None:
    channel = channel_between("b", "a", SETTINGS)
    assert channel is not None
    assert channel.admits(Rows([{"n": 1}, {"secret": True}])).tolist() == [True, False]
    assert channel_between("a", "c", SETTINGS) is None
