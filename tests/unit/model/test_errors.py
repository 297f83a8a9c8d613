"""Errors: one tree, so that a user can catch as much or as little of it as he likes."""

import pickle

import pytest

from stentor.model import errors
from stentor.model.errors import FilterError, FrameError, InvalidInput, Refusal, Refused, StentorError


def test_everything_raised_at_a_user_is_a_stentor_error() -> None:
    raised = [thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, Exception)]
    assert len(raised) > 10
    assert all(issubclass(each, StentorError) for each in raised)


def test_wrong_input_is_also_a_value_error() -> None:
    assert issubclass(InvalidInput, ValueError)
    for each in (errors.TopicError, errors.AttributeValueError, errors.BodyTooLarge, FilterError, errors.ConfigError):
        assert issubclass(each, InvalidInput)
    assert not issubclass(FrameError, ValueError)
    assert issubclass(errors.Fenced, Refused)


def test_a_filter_error_points_at_the_character() -> None:
    error = FilterError("what is this", "a = ?", 4)
    assert str(error) == "what is this\n  a = ?\n      ^"
    assert (error.reason, error.text, error.position) == ("what is this", "a = ?", 4)
    assert str(FilterError("several lines", "a\n= ?", 3)) == "several lines"


def test_refusals_carry_their_code() -> None:
    assert Refused(Refusal.TOPIC, "no").code is Refusal.TOPIC
    assert FrameError(Refusal.CORRUPT, "damaged").code is Refusal.CORRUPT
    assert str(FrameError(Refusal.CORRUPT, "damaged")) == "damaged"


@pytest.mark.parametrize("code", list(Refusal))
def test_a_refusals_code_is_a_word_of_the_protocol(code: Refusal) -> None:
    assert pickle.loads(pickle.dumps(code)) is code
    assert code.value == code.name.lower().replace("_", "-")
