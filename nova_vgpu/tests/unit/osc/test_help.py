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

"""What --help shows of the commands."""

import argparse
from importlib import metadata
import typing

import fixtures
import testtools

from nova_vgpu.osc import migration


class TestHelp(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '80'))

    def format_help(self, command: typing.Any) -> str:
        parser: argparse.ArgumentParser = command(None, None).get_parser('x')
        return parser.format_help()

    def test_paragraphs_are_kept(self) -> None:
        shown = self.format_help(migration.CheckMigration)
        self.assertIn('\n\nEach row is a host with GPUs. ', shown)
        self.assertIn('\n\n  openstack vgpu migration check --host', shown)

    def test_it_fits_a_terminal(self) -> None:
        for command in metadata.entry_points(group='openstack.vgpu.v1'):
            lines = self.format_help(command.load()).splitlines()
            wide = [line for line in lines if len(line) > 80]
            self.assertEqual([], wide, command.name)
