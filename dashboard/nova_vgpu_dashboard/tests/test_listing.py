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

import unittest
import urllib.parse

from nova_vgpu_dashboard import listing

RULES: listing.Rules[str] = listing.Rules(
    filters={'part': lambda entry, text: text in entry},
    orders={'name': listing.natural, 'length': len},
    default='name',
)
NAMES = ('compute10', 'compute9', 'a', 'Compute2')


class TestPlaces(unittest.TestCase):
    def turn(self, size: int = 10, **query: str) -> listing.Page[str]:
        return listing.turn_to(RULES.parse(query), NAMES, RULES, size)

    def test_numbers_in_names_are_in_their_order(self) -> None:
        self.assertEqual(
            ('a', 'Compute2', 'compute9', 'compute10'), self.turn().entries
        )

    def test_an_order_and_the_other_way_round(self) -> None:
        self.assertEqual('compute10', self.turn(sort='-length').entries[0])
        place = RULES.parse({'sort': 'length', 'page': '3'})
        self.assertEqual('sort=-length', place.sorted_by('length').encode())
        self.assertEqual('sort=name', place.sorted_by('name').encode())

    def test_equal_entries_are_in_the_usual_order_both_ways(self) -> None:
        for sort in ('length', '-length'):
            found = [e for e in self.turn(sort=sort).entries if len(e) == 8]
            self.assertEqual(['Compute2', 'compute9'], found)

    def test_filters(self) -> None:
        page = self.turn(part='10')
        self.assertEqual((('compute10',), 1), (page.entries, page.found))
        self.assertEqual(4, self.turn(part=' ').found)

    def test_a_part_of_a_name_or_all_of_it(self) -> None:
        for text, names in (
            ('pute1', ['compute1', 'Compute10']),
            ('=compute1', ['compute1']),
            ('=compute', []),
        ):
            found = [
                name
                for name in ('compute1', 'Compute10')
                if listing.is_found(name, text)
            ]
            self.assertEqual(names, found, text)

    def test_numbers_of_any_length_have_an_order(self) -> None:
        names = ['a007', 'a10', f'a{"9" * 5000}']
        self.assertEqual(names, sorted(names, key=listing.natural))

    def test_pages(self) -> None:
        page = self.turn(3, page='2', part='', sort='name')
        self.assertEqual(('compute10',), page.entries)
        self.assertEqual(
            (4, 4, 4, 2), (page.first, page.last, page.found, page.pages)
        )
        self.assertEqual(('sort=name', None), (page.previous, page.next))
        first = self.turn(3)
        self.assertEqual(
            (None, 'sort=name&page=2'), (first.previous, first.next)
        )

    def test_a_page_after_the_last_is_the_last(self) -> None:
        self.assertEqual(2, self.turn(3, page='99').place.page)

    def test_an_empty_list_has_a_page(self) -> None:
        page = self.turn(part='nothing')
        self.assertEqual(
            ((), 0, 0, 1), (page.entries, page.first, page.last, page.pages)
        )

    def test_nonsense_is_ignored(self) -> None:
        for query in (
            {'page': '0'},
            {'page': '-1'},
            {'page': 'x'},
            {'page': '\u0663'},
            {'page': '9' * 5000},
            {'sort': 'nothing'},
            {'sort': '--name'},
            {'other': 'x'},
        ):
            page = self.turn(10, **query)
            self.assertEqual((4, 1), (page.found, page.place.page), query)
            self.assertEqual('sort=name', page.place.encode(), query)

    def test_a_place_can_be_found_again(self) -> None:
        for query in (
            {'part': 'a&b=c #%"', 'sort': '-length', 'page': '2'},
            {'part': 'größe', 'sort': 'name'},
        ):
            place = RULES.parse(query)
            again = dict(urllib.parse.parse_qsl(place.encode()))
            self.assertEqual(place, RULES.parse(again))
