"""Numbers of names: the same on every node, in every version, in every log."""

from hypothesis import given
from hypothesis import strategies as st

from stentor.model.filter import Filter
from stentor.model.ids import fingerprint, publisher_id, topic_id


def test_numbers_never_change() -> None:
    assert topic_id("flights/jfk") == 442359169532654676
    assert topic_id("été/ö") == 2239448099111642098
    assert publisher_id("anonymous", "b1") == 4501546305394285483
    assert fingerprint("topic", "") == 4080527267355481965
    assert Filter("a = 1").id == 12154856980655426403


@given(st.text(st.characters(codec="utf-8")))
def test_a_number_has_64_bits_and_is_never_zero(name: str) -> None:
    assert 0 < topic_id(name) < 2**64
    assert topic_id(name) != fingerprint("schema", name)


def test_a_publisher_is_its_principal_and_its_name() -> None:
    assert (
        len({publisher_id("a", "bc"), publisher_id("ab", "c"), publisher_id("abc", ""), publisher_id("", "abc")}) == 4
    )


def test_a_filter_has_the_number_of_its_canonical_text() -> None:
    one, other = Filter("a = 1 AND b LIKE 'x%'"), Filter('a=1 and  b like "x%"')
    assert one.id == other.id == fingerprint("filter", str(one))
    assert one.id != Filter("a = 1.0 AND b LIKE 'x%'").id
