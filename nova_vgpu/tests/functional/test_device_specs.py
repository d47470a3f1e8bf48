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

"""``[pci]device_spec`` means here what it means to Nova."""

import pathlib

import fixtures
from nova.conf import devices as nova_devices
from nova.conf import pci as nova_pci
from nova.pci import whitelist
from oslo_config import cfg
import testtools

from nova_vgpu import values
from nova_vgpu.conf import devices
from nova_vgpu.plan import nova_conflicts
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts

L40S = hosts.make_gpu(
    hosts.gpu('0001:c8:00.0', boards.L40S, vfs=8, vendor_vfio=True)
)
T4 = hosts.make_gpu(hosts.gpu('84:00.0', boards.T4))
LINES = (
    '{"vendor_id": "10de"}',
    '{"vendor_id": "10DE", "product_id": "26b9"}',
    '{"product_id": "1eb8"}',
    '{"vendor_id": "*", "address": "84:00.0"}',
    '{"address": "0001:c8:00.4", "managed": "no"}',
    '{"address": "0001:C8:00.0"}',
    '{"address": "*:c8:00.*"}',
    '{"address": "*:c8:00.0"}',
    '{"address": ":00."}',
    '{"address": ".5"}',
    '{"address": {"bus": "c8", "function": "[4-5]"}}',
    '{"address": {"bus": "c"}}',
    '{"address": {"domain": "0001", "bus": "c8", "slot": "00",'
    ' "function": "0"}}',
    '[{"address": "84:00.0"}, {"address": "c8:00.6"}]',
    '{}',
)


def _is_physical_function(*address: str) -> bool:
    """In place of Nova's, which looks into the machine's own sysfs."""
    return ('{}:{}:{}.{}'.format(*address)) == str(L40S)


class TestDeviceSpecs(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())  # "Deprecated: …"
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.pci.utils.is_physical_function', _is_physical_function
            )
        )
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf'
        )

    def load(self, lines: str) -> cfg.ConfigOpts:
        """A configuration with Nova's options."""
        # Nova's groups are one object for the process each.
        for name in ('pci', 'devices'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova.conf.{name}.{name}_group', cfg.OptGroup(name)
                )
            )
        self.path.write_text(
            f'[devices]\nenabled_vgpu_types = T4-2Q\n{lines}\n'
        )
        conf = cfg.ConfigOpts()
        nova_devices.register_opts(conf)
        nova_pci.register_opts(conf)
        conf(
            ['--config-file', str(self.path)],
            default_config_files=[],
            default_config_dirs=[],
        )
        return conf

    def test_each_line_is_for_the_same_functions(self) -> None:
        for line in LINES:
            conf = self.load(f'[pci]\ndevice_spec = {line}')
            novas = whitelist.Whitelist(conf.pci.device_spec)
            declaration, _ = devices.read_declaration(conf)
            for gpu in (L40S, T4):
                found = nova_conflicts.find_listed(
                    declaration.pci_devices, gpu
                )
                every = [gpu.address, *(vf.address for vf in gpu.vfs)]
                expected = {
                    address.node_device_name
                    for address in every
                    if address
                    and novas.device_assignable(_device(gpu, address))
                }
                enabled = found.keys() & gpu.functions
                self.assertEqual(expected, enabled, f'{line} {gpu}')

    def test_old_names_are_found_under_their_own(self) -> None:
        for group, name in (
            ('pci', 'device_spec'),
            ('pci', 'passthrough_whitelist'),
            ('DEFAULT', 'pci_passthrough_whitelist'),
        ):
            conf = self.load(f'[{group}]\n{name} = {{"vendor_id": "10de"}}')
            self.assertEqual(['{"vendor_id": "10de"}'], conf.pci.device_spec)
            declaration, _ = devices.read_declaration(conf)
            (spec,) = declaration.pci_devices
            self.assertEqual(f'[{group}]{name}', spec.option)


def _device(
    gpu: values.PhysicalGPU, address: values.PciAddress
) -> dict[str, object]:
    """A function as Nova's PCI tracker has it."""
    ids = gpu.ids or values.PciIds(0, 0)
    return {
        'vendor_id': f'{ids.vendor:04x}',
        'product_id': f'{ids.device:04x}',
        'address': str(address),
        'parent_addr': None if address == gpu.address else str(gpu),
    }
