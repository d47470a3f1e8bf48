#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A directive that draws boxes in a grid, and arrows between them.

::

    .. flow-diagram:: How a request is answered

       (client)  | api: requests | worker: does the work
       .         | .             | (disk)
       ===
       log: what happened

       client -> api: request
       api -> worker
       worker -> disk

Each line of the grid is a row of boxes, ``name`` or ``name: what it is``. A
box in parentheses is not part of the project. ``.`` leaves a place empty. A
row after ``===`` is as wide as the picture. An arrow leads to the next column
or stays in its own. The text can be read without the picture, and the picture
is SVG within the page, so it needs no other program.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import html
import re
import textwrap
import typing

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import docutils
from sphinx.util import logging
from sphinx.util import typing as sphinx_typing

LOG = logging.getLogger(__name__)

_WIDTH, _HEIGHT = 150, 76
_GAP_X, _GAP_Y = 70, 30
_ROW = _HEIGHT + _GAP_Y
_BAR_HEIGHT = 48
#: Where arrows turn between columns, and how far apart.
_TURN = 14
_LINE = 15
#: As many characters of the small font as a box is wide.
_CHARACTERS = 22
_ARROW = re.compile(
    r'(?P<source>.+?) -> (?P<target>[^:]+)(?:: (?P<label>.+))?'
)
_STYLE = """
  .box rect { fill: #eef4fb; stroke: #2a4e68; }
  .outside rect { fill: #fff; stroke: #7a7a7a; stroke-dasharray: 4 3; }
  .name { font: bold 14px sans-serif; fill: #1c2b36; }
  .what, .label { font: 11px sans-serif; fill: #3c4a54; }
  .label { font-style: italic; paint-order: stroke; stroke: #fff;
    stroke-width: 4px; }
  .arrow { fill: none; stroke: #2a4e68; stroke-width: 1.4; }
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """A box of the picture, and where it is."""

    name: str
    what: str
    is_outside: bool
    x: float
    y: float
    width: float = _WIDTH
    height: float = _HEIGHT

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


@dataclasses.dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another."""

    source: str
    target: str
    label: str


@dataclasses.dataclass(frozen=True, slots=True)
class Diagram:
    """What a text describes."""

    boxes: dict[str, Box]
    arrows: tuple[Arrow, ...]
    width: float
    height: float


def parse(lines: Iterable[str]) -> Diagram:
    """The picture that a text describes.

    :raises ValueError: if an arrow leads to a box that is not there.
    """
    grid: list[list[str]] = []
    bars: list[list[str]] = []
    arrows: list[Arrow] = []
    rows = grid
    for line in (line.strip() for line in lines):
        if line == '===':
            rows = bars
        elif match := _ARROW.fullmatch(line):
            arrows.append(
                Arrow(match['source'], match['target'], match['label'] or '')
            )
        elif line:
            rows.append([cell.strip() for cell in line.split('|')])
    columns = max(map(len, grid))
    width = columns * _WIDTH + (columns - 1) * _GAP_X
    boxes = {box.name: box for box in _place(grid, bars, width)}
    for arrow in arrows:
        for name in (arrow.source, arrow.target):
            if name not in boxes:
                raise ValueError(f'no box {name!r}')
    height = max(box.y + box.height for box in boxes.values())
    return Diagram(boxes, tuple(arrows), width, height)


def _place(
    grid: list[list[str]], bars: list[list[str]], width: float
) -> Iterator[Box]:
    y = 0.0
    for row in grid:
        for column, cell in enumerate(row):
            if cell != '.':
                yield _read_box(cell, column * (_WIDTH + _GAP_X), y)
        y += _ROW
    for row in bars:
        each = (width - (len(row) - 1) * _GAP_Y) / len(row)
        for column, cell in enumerate(row):
            x = column * (each + _GAP_Y)
            yield _read_box(cell, x, y, each, _BAR_HEIGHT)
        y += _BAR_HEIGHT + _GAP_Y


def _read_box(cell: str, x: float, y: float, *size: float) -> Box:
    name, _, what = cell.partition(': ')
    is_outside = name.startswith('(')
    if is_outside:
        name, what = name.removeprefix('('), what.removesuffix(')')
    return Box(name.removesuffix(')'), what, is_outside, x, y, *size)


def draw(diagram: Diagram, title: str) -> str:
    """The picture as SVG."""
    margin = 4
    view = (
        f'{-margin} {-margin} {diagram.width + 2 * margin:g} '
        f'{diagram.height + 2 * margin:g}'
    )
    return '\n'.join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" '
            'role="img" style="width: 100%; height: auto">',
            f'<title>{html.escape(title)}</title>',
            f'<style>{_STYLE}</style>',
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" fill="#2a4e68"/></marker></defs>',
            *(_draw_arrow(arrow, diagram.boxes) for arrow in diagram.arrows),
            *(_draw_label(arrow, diagram.boxes) for arrow in diagram.arrows),
            *map(_draw_box, diagram.boxes.values()),
            '</svg>',
        )
    )


def _draw_box(box: Box) -> str:
    x, y = box.middle
    lines = textwrap.wrap(
        box.what, int(_CHARACTERS * box.width / _WIDTH), break_on_hyphens=False
    )
    y += 5 - len(lines) * _LINE / 2
    drawn = [_draw_text('name', x, y, box.name)]
    drawn += (
        _draw_text('what', x, y + number * _LINE, line)
        for number, line in enumerate(lines, 1)
    )
    return (
        f'<g class="{"outside" if box.is_outside else "box"}">'
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" '
        f'height="{box.height:g}" rx="5"/>{"".join(drawn)}</g>'
    )


def _draw_arrow(arrow: Arrow, boxes: dict[str, Box]) -> str:
    source, target = boxes[arrow.source], boxes[arrow.target]
    (x, y), (to_x, to_y) = source.middle, target.middle
    if source.x == target.x:
        down = 1 if to_y > y else -1
        start, end = y + down * source.height / 2, to_y
        path = f'M{x:g} {start:g} V{end - down * target.height / 2:g}'
    else:
        right = 1 if to_x > x else -1
        start = x + right * source.width / 2
        end = to_x - right * target.width / 2
        # Arrows from different rows do not cover each other.
        to_y += _TURN * ((source.y < target.y) * -1 + (source.y > target.y))
        turn = start + right * (_TURN + _TURN * source.y / _ROW)
        path = f'M{start:g} {y:g} H{turn:g} V{to_y:g} H{end:g}'
    return f'<path class="arrow" d="{path}" marker-end="url(#head)"/>'


def _draw_label(arrow: Arrow, boxes: dict[str, Box]) -> str:
    """The text of an arrow, between the columns."""
    source, target = boxes[arrow.source], boxes[arrow.target]
    (x, y), (to_x, _) = source.middle, target.middle
    right = 1 if to_x > x else -1
    if source.x == target.x:
        return _draw_text('label', x, y + source.height / 2 + 18, arrow.label)
    middle = x + right * (source.width + _GAP_X) / 2
    return _draw_text('label', middle, y + 14, arrow.label)


def _draw_text(kind: str, x: float, y: float, text: str) -> str:
    if not text:
        return ''
    return (
        f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="middle">'
        f'{html.escape(text)}</text>'
    )


class FlowDiagram(docutils.SphinxDirective):
    """The picture, in builders that show HTML; others show its text."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: typing.ClassVar[sphinx_typing.OptionSpec] = {}

    def run(self) -> list[nodes.Node]:
        text = '\n'.join(self.content)
        if self.env.app.builder.format != 'html':
            return [nodes.literal_block(text, text)]
        try:
            drawn = draw(parse(self.content), self.arguments[0])
        except ValueError as error:
            LOG.warning('%s', error, location=self.get_location())
            return []
        return [nodes.raw('', drawn, format='html')]


def setup(app: Sphinx) -> sphinx_typing.ExtensionMetadata:
    app.add_directive('flow-diagram', FlowDiagram)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
