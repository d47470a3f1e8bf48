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

"""Names of types that a full card does not tell."""

import dataclasses
import pathlib

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import vgpu_config_xml
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

FILE = """<?xml version="1.0" encoding="utf-8"?>
<vgpuconfig>
  <version>1.0</version>
  <vgpuType id="1155" name="NVIDIA L40S-24Q" class="Quadro">
    <devId vendorId="0x10de" deviceId="0x26B9"/>
  </vgpuType>
  <vgpuType id="11" name="GRID M60-0B" class="NVS"/>
</vgpuconfig>
"""

FULL = hosts.make_host(
    hosts.gpu(
        'c8:00.0',
        boards.L40S,
        'nvidia-1155',
        'nvidia-1155',
        vfs=4,
        vendor_vfio=True,
    )
)
HALF = hosts.make_host(
    hosts.gpu('c8:00.0', boards.L40S, 'nvidia-1155', vfs=4, vendor_vfio=True)
)
DECLARED = values.Declaration(
    (values.DeclaredType('L40S-24Q', 'vgpu_L40S-24Q'),)
)


class TestTypeNames(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.path = directory / 'vgpuConfig.xml'

    def complete(self, host: values.Host) -> values.Host:
        return vgpu_config_xml.Completion(str(self.path)).complete(host)

    def test_a_full_card_serves_and_shows_what_it_did_before(self) -> None:
        self.path.write_text(FILE)
        found = [
            plans.list_providers(
                plans.make_plan(DECLARED, self.complete(host)), 'node'
            )
            for host in (HALF, FULL)
        ]
        self.assertEqual(1, len(found[0]))
        self.assertEqual(found[0], found[1])
        plan = plans.make_plan(DECLARED, self.complete(FULL))
        self.assertEqual((), plan.problems)

    def test_a_host_that_tells_all_names_needs_no_file(self) -> None:
        self.path.write_text('not even XML')
        self.assertIs(HALF, self.complete(HALF))

    def test_a_host_without_the_file_is_as_it_was(self) -> None:
        self.assertIs(FULL, self.complete(FULL))

    def test_the_file_is_read_again_only_if_it_changed(self) -> None:
        self.path.write_text(FILE)
        completion = vgpu_config_xml.Completion(str(self.path))
        first = completion.complete(FULL)
        self.assertEqual(
            (('nvidia-1155', 'NVIDIA L40S-24Q'),), first.type_names
        )
        with fixtures.MockPatchObject(
            files.Files, 'read', side_effect=AssertionError
        ):
            self.assertIs(first, completion.complete(FULL))
            # Another look at the same host, in which something changed.
            other = dataclasses.replace(FULL)
            self.assertEqual(first, completion.complete(other))
        self.path.write_text(FILE.replace('L40S-24Q', 'L40S-24C!'))
        (name,) = completion.complete(FULL).type_names
        self.assertEqual('NVIDIA L40S-24C!', name[1])
        self.path.unlink()
        self.assertIs(FULL, completion.complete(FULL))

    def test_a_file_that_makes_no_sense_is_a_fault(self) -> None:
        for case, text in (
            ('no XML', 'vgpu'),
            ('an id that is no number', FILE.replace('"1155"', '"x"')),
            ('no id', FILE.replace('id="1155"', '')),
            ('bytes', '\0'),
        ):
            self.path.write_text(text)
            host = self.complete(FULL)
            (fault,) = host.faults
            self.assertIn(str(self.path), fault.source, case)
            self.assertEqual(FULL.gpus, host.gpus, case)
