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
"""A bar chart, drawn by the server.

Positions are pixels from top to bottom and percentages from left to right, so
that texts keep their size in a narrow window.
"""

from collections.abc import Callable
from collections.abc import Iterable
import dataclasses

_MOST = 10
_LINE = 44
# From the top of a line.
_TEXT = 16
_BAR = 24
_LONGEST_NAME = 80


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """A name, its value, and where both and the bar are."""

    name: str
    value: float
    width: str
    line: int

    @property
    def label(self) -> str:
        """The name, cut off if it is longer than any window is wide."""
        if len(self.name) <= _LONGEST_NAME:
            return self.name
        return f'{self.name[: _LONGEST_NAME - 1]}…'

    @property
    def text(self) -> str:
        return f'{self.value:.2f}'

    @property
    def top(self) -> int:
        return self.line * _LINE

    @property
    def baseline(self) -> int:
        return self.top + _TEXT

    @property
    def bar_top(self) -> int:
        return self.top + _BAR


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    bars: tuple[Bar, ...]

    @property
    def height(self) -> int:
        return len(self.bars) * _LINE


def draw(
    amounts: Iterable[tuple[str, float]], name_others: Callable[[int], str]
) -> Chart:
    """The largest amounts, and one bar for all others.

    :param name_others: gives the name for so many others.
    """
    found = sorted(amounts, key=lambda amount: (-amount[1], amount[0]))
    shown, others = found[:_MOST], found[_MOST:]
    if others:
        left = sum(value for _, value in others)
        shown.append((name_others(len(others)), left))
    largest = max((value for _, value in shown), default=0.0)
    return Chart(
        tuple(
            Bar(name, value, _in_percent(value, largest), line)
            for line, (name, value) in enumerate(shown)
        )
    )


def _in_percent(value: float, largest: float) -> str:
    """Something is never drawn as nothing."""
    if not largest or not value:
        return '0%'
    return f'{max(100 * value / largest, 0.5):.1f}%'
