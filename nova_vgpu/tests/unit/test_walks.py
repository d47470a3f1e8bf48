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

"""The page on the architecture describes what happens.

The walks through the driver need Nova: a functional test has them.
"""

import re
import threading

import testtools

from nova_vgpu import values
from nova_vgpu.tests import walks
from nova_vgpu.tests.unit import test_documentation

ADDRESS = '0000:41:00.0'
PARSE = 'nova_vgpu.values.host_hardware.PciAddress.parse'
STR = 'nova_vgpu.values.host_hardware.PciAddress.__str__'


class TestPage(test_documentation.DocumentationTestCase):
    def test_apply(self) -> None:
        walk = walks.walk_apply()
        self.assertEqual([], walks.find_mistakes(walks.APPLY_TITLE, walk))

    def test_doctor(self) -> None:
        walk = walks.walk_doctor()
        self.assertEqual([], walks.find_mistakes(walks.DOCTOR_TITLE, walk))

    def test_the_picture_has_every_package(self) -> None:
        page = self.pages['contributor/architecture.rst']
        (picture,) = re.findall(
            r'\.\. flow-diagram::.*\n\n((?:   .*\n|\n)+)', page
        )
        cells = re.split(r'[|\n]', picture.partition('->')[0])
        drawn = {cell.strip().partition(':')[0] for cell in cells}
        packages = {
            path.parent.name
            for path in test_documentation.PACKAGE.glob('*/__init__.py')
        }
        # A distribution of its own.
        packages.add('dashboard')
        self.assertEqual(set(), packages - {'tests'} - drawn)
        named = {name for name in drawn if re.fullmatch(r'[a-z]+', name)}
        self.assertEqual(set(), named - packages)


class TestRecorder(testtools.TestCase):
    def test_a_walk_has_functions_in_the_order_of_first_calls(self) -> None:
        address = values.PciAddress.parse(ADDRESS)
        walk = walks.record(
            lambda: [str(address), values.PciAddress.parse(ADDRESS)]
        )
        order = [name for name in walk.passed if name in (PARSE, STR)]
        self.assertEqual([STR, PARSE], order)

    def test_threads_are_walked_as_well(self) -> None:
        def start() -> None:
            thread = threading.Thread(
                target=values.PciAddress.parse, args=(ADDRESS,)
            )
            thread.start()
            thread.join()

        self.assertIn(PARSE, walks.record(start).passed)

    def test_nothing_is_recorded_afterwards(self) -> None:
        walk = walks.record(lambda: None)
        values.PciAddress.parse(ADDRESS)
        self.assertEqual({}, walk.passed)


class TestCompare(testtools.TestCase):
    """``outer`` calls ``first``, then ``second``."""

    def setUp(self) -> None:
        super().setUp()
        self.walk = walks.Walk()
        for name, *callers in (
            ('outer',),
            ('first', 'outer'),
            ('second', 'outer'),
        ):
            self.walk.passed[name] = walks.Passed(name, 'a', tuple(callers))

    def find(self, *steps: tuple[int, str]) -> list[str]:
        return list(
            walks.compare(
                [walks.Step(name, indented) for indented, name in steps],
                self.walk,
            )
        )

    def test_none(self) -> None:
        self.assertEqual(
            [], self.find((0, 'outer'), (3, 'first'), (3, 'second'))
        )
        self.assertEqual([], self.find((0, 'outer'), (3, 'second')))

    def test_another_order(self) -> None:
        self.assertEqual(
            ['first is passed before second'],
            self.find((0, 'outer'), (3, 'second'), (3, 'first')),
        )

    def test_another_caller(self) -> None:
        self.assertEqual(
            ['second is not called by first'],
            self.find((0, 'outer'), (3, 'first'), (6, 'second')),
        )

    def test_a_function_that_is_not_passed(self) -> None:
        self.assertEqual(
            ['third is not passed'],
            self.find((0, 'outer'), (3, 'third')),
        )
