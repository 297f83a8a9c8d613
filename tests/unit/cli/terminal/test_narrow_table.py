"""Tables that fit: whole headings, cells that are broken between words, and whatever is in them is still there."""

import io
import random
import re

import pytest
from rich.console import Console
from rich.text import Text

from stentor.cli.terminal.narrow_table import Cell, narrow_table


def shown(columns: dict[str, list[Cell]], width: int, **more: tuple[str, ...]) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(narrow_table(columns, width, **more))  # type: ignore[arg-type]
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_what_fits_stays_in_one_line() -> None:
    lines = shown({"broker": ["north/hall/b1"], "events →": ["12"]}, 80, right=("events →",))
    assert lines == ["broker         events →", "north/hall/b1        12"]


def test_headings_are_broken_before_names_and_names_at_slashes() -> None:
    columns: dict[str, list[Cell]] = {"from": ["north/library/b1"], "round trip": ["1.5 ms"]}
    assert shown(columns, 24) == ["                  round", "from              trip", "north/library/b1  1.5 ms"]
    assert shown(columns, 22) == [
        "                round",
        "from            trip",
        "north/library/  1.5 ms",
        "b1",
    ]


def test_numbers_units_and_addresses_stay_whole() -> None:
    columns: dict[str, list[Cell]] = {"where": ["here and there"], "disk": ["760.2 KiB"], "at": ["127.0.0.1:7420"]}
    assert shown(columns, 32) == [
        "where  disk       at",
        "here   760.2 KiB  127.0.0.1:7420",
        "and",
        "there",
    ]


def test_spare_and_empty_columns_are_left_out() -> None:
    columns: dict[str, list[Cell]] = {"a": ["1234567890"], "spare": ["1234567890"], "b": ["1234567890"], "none": [""]}
    assert shown(columns, 34)[0].split() == ["a", "spare", "b"]
    assert shown(columns, 33, spare=("spare",))[0].split() == ["a", "b"]


def test_styles_and_markup_survive() -> None:
    table = narrow_table({"state": ["[red]slow and dead[/]", Text("[up]", "green")]}, 5)
    cells = [cell for column in table.columns for cell in column.cells]
    assert [str(cell) for cell in cells] == ["slow\nand\ndead", "[up]"]
    assert isinstance(cells[0], Text)
    assert {str(span.style) for span in cells[0].spans} == {"red"}


@pytest.mark.parametrize("seed", range(100))
def test_nothing_is_cut_and_nothing_too_wide(seed: int) -> None:
    draw = random.Random(seed)

    def word() -> str:
        return "".join(draw.choices("abcdefghij/-:_. 0123456789", k=draw.randrange(1, 40))).strip() or "x"

    headings = [f"{'head' * draw.randrange(1, 3)}{number} of it" for number in range(draw.randrange(1, 7))]
    columns: dict[str, list[Cell]] = {name: [Text(word()) for _ in range(4)] for name in headings}
    lines = shown(columns, 80)
    text = "".join(lines)
    assert "…" not in text
    assert max(map(len, lines)) <= 80
    for name, cells in columns.items():
        assert set(name.split()) <= set(" ".join(lines).split())
        for cell in cells:
            assert set(re.sub(r"\s", "", str(cell))) <= set(text)
    assert sum(len(re.sub(r"\s", "", str(each))) for name in columns for each in (name, *columns[name])) == len(
        re.sub(r"\s", "", text)
    )
