"""Tables that fit a terminal: headings stay whole, and cells are broken where people would break them.

Rich breaks only at blanks and cuts whatever does not fit. Names of ours are paths without blanks, and half of one is of
no use to anyone.
"""

import re
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

_GAP = 2  # blanks between columns
# after a blank, unless a unit follows its number; after a slash; after other signs inside names, not in addresses
_BREAK = re.compile(r"(?<=\s)(?<!\d\s)(?=\S)|(?<=/)(?=.)|(?<=[:_.=-])(?=[A-Za-z])")

Cell = str | Text


def narrow_table(
    columns: Mapping[str, Sequence[Cell]],
    width: int,
    *,
    right: Sequence[str] = (),
    spare: Sequence[str] = (),
    title: str = "",
) -> Table:
    """Return a table of columns by their headings, at most `width` wide; those named in `right` are flush right.

    Strings may contain markup. Columns that are empty are left out, and those of `spare`, the first of them first, as
    long as some word would have to be broken.
    """
    shown = {name: [_text(cell) for cell in cells] for name, cells in columns.items() if any(map(str, cells))}
    for name in spare:
        least = [max(_longest_word(cell) for cell in (Text(each), *cells)) for each, cells in shown.items()]
        if sum(least) + _GAP * (len(least) - 1) > width:
            shown.pop(name, None)
    widths = _fit([[Text(name), *cells] for name, cells in shown.items()], width)
    table = Table(title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name, size in zip(shown, widths, strict=True):
        heading = _broken(Text(name), size)
        table.add_column(heading, justify="right" if name in right else "left", width=size, no_wrap=True)
    for row in zip(*shown.values(), strict=True):
        table.add_row(*(_broken(cell, size) for cell, size in zip(row, widths, strict=True)))
    return table


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text.from_markup(cell)


def _fit(columns: Sequence[Sequence[Text]], width: int) -> list[int]:
    """The width of each column, whose first cell is its heading.

    What is too wide is broken: first headings between their words, then cells likewise, then cells anywhere; always in
    the column that is the widest of those where it helps.
    """
    widths = [max(map(_width, cells)) for cells in columns]
    room = width - _GAP * (len(columns) - 1)
    headings = [_longest_word(heading) for heading, *_ in columns]
    whole = [max(least, *map(_width, cells[1:])) for least, cells in zip(headings, columns, strict=True)]
    words = [max(map(_longest_word, cells)) for cells in columns]
    for least in (whole, words, headings):
        while sum(widths) > room:
            broken = [(size, place) for place, size in enumerate(widths) if size > least[place]]
            if not broken:
                break
            widths[max(broken)[1]] -= 1
    return widths


def _width(cell: Text) -> int:
    return max(line.cell_len for line in cell.split(allow_blank=True))


def _longest_word(cell: Text) -> int:
    return max(len(word.strip()) for word in _BREAK.split(cell.plain))


def _broken(cell: Text, width: int) -> Text:
    """The same in lines of at most this width."""
    lines = [part for line in cell.split(allow_blank=True) for part in _lines(line, width)]
    return Text("\n").join(lines)


def _lines(line: Text, width: int) -> list[Text]:
    begin, offsets, fits = 0, list[int](), 0
    ends = [match.start() for match in _BREAK.finditer(line.plain)] + [len(line)]
    for end in ends:
        while len(line.plain[begin:end].rstrip()) > width:
            begin = fits if fits > begin else begin + width  # a word that is too long is broken anywhere
            offsets.append(begin)
        fits = end
    parts = list(line.divide(offsets))
    for part in parts:
        part.rstrip()
    return parts
