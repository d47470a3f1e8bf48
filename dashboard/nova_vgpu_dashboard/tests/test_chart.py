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
"""The chart, as positions and texts."""

from django import test

from nova_vgpu_dashboard import chart


def draw(*amounts: tuple[str, float]) -> tuple[chart.Bar, ...]:
    return chart.draw(amounts, lambda number: f'{number} others').bars


class TestChart(test.SimpleTestCase):
    def test_the_largest_comes_first_and_fills_the_width(self) -> None:
        bars = draw(('b', 25.0), ('a', 100.0), ('c', 25.0))
        self.assertEqual(
            [('a', '100.0%'), ('b', '25.0%'), ('c', '25.0%')],
            [(bar.name, bar.width) for bar in bars],
        )

    def test_many_projects_are_ten_and_the_others(self) -> None:
        bars = draw(*((f'p{number:03}', 1.0) for number in range(1000)))
        self.assertEqual(11, len(bars))
        self.assertEqual(
            ('990 others', 990.0), (bars[-1].name, bars[-1].value)
        )
        self.assertEqual('100.0%', bars[-1].width, 'others may be the most')

    def test_ten_projects_have_no_others(self) -> None:
        bars = draw(*((f'p{number}', 1.0) for number in range(10)))
        self.assertEqual(10, len(bars))

    def test_something_is_never_drawn_as_nothing(self) -> None:
        bars = draw(('a', 1e9), ('b', 1.0), ('c', 0.0))
        self.assertEqual(['100.0%', '0.5%', '0%'], [b.width for b in bars])

    def test_nothing_at_all(self) -> None:
        self.assertEqual((), draw())
        self.assertEqual('0%', draw(('a', 0.0))[0].width)

    def test_bars_are_below_each_other(self) -> None:
        first, second = draw(('a', 2.0), ('b', 1.0))
        self.assertLess(first.bar_top, second.top)
        self.assertGreater(first.bar_top, first.baseline)

    def test_a_long_name_is_cut_off(self) -> None:
        (bar,) = draw(('x' * 255, 1.0))
        self.assertEqual('x' * 79 + '…', bar.label)
        self.assertEqual('x' * 255, bar.name)
