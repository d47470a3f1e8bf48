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

"""Nova's own driver with what was generated for it."""

import pathlib

import fixtures
import nova.conf
from nova.conf import devices as nova_devices
from oslo_config import cfg

from nova_vgpu import values
from nova_vgpu.generate import nova_conf
from nova_vgpu.generate import type_requests
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import simulated

HOST = 'host1'
CARDS = (
    hosts.gpu('41:00.0', boards.A40, vfs=16),
    hosts.gpu('84:00.0', boards.T4),
    hosts.gpu('85:00.0', boards.T4),
)


def write_fragment(*types: str) -> str:
    host = hosts.make_host(*CARDS)
    by_address = {str(gpu): gpu for gpu in host.gpus}
    wanted = []
    for text in types:
        address, _, type_ = text.rpartition('=')
        wanted.append(values.TypeRequest(type_, by_address.get(address)))
    granted = type_requests.grant(host, wanted)
    fragment = nova_conf.generate(
        host, granted, values.Reader.NOVA, values.ModesRead()
    )
    return '\n'.join(fragment.lines)


class GeneratedForNovaTest(simulated.SimulatedTestBase):
    def configure(self, text: str) -> None:
        """Give Nova what its own options make of the file."""
        path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'vgpu.conf'
        )
        path.write_text(text)
        conf = cfg.ConfigOpts()
        with fixtures.MonkeyPatch(
            # One object for the process, which keeps what is set through it.
            'nova.conf.devices.devices_group',
            cfg.OptGroup('devices'),
        ):
            nova_devices.register_opts(conf)
        conf(
            ['--config-file', str(path)],
            default_config_files=[],
            default_config_dirs=[],
        )
        nova_devices.register_dynamic_opts(conf)
        types = conf.devices.enabled_mdev_types
        self.flags(enabled_mdev_types=types, group='devices')
        nova_devices.register_dynamic_opts(nova.conf.CONF)
        for type_id in types:
            group = f'mdev_{type_id}'
            self.flags(
                device_addresses=conf[group].device_addresses, group=group
            )

    def totals(self, *gpus: simulation.GPU) -> dict[str, int]:
        """What Placement holds of each GPU, its functions together."""
        found = {}
        for gpu in gpus:
            functions = (gpu.address, *gpu.vf_addresses)
            found[str(gpu.address)] = sum(
                (self.inventory(address.node_device_name) or {'total': 0})[
                    'total'
                ]
                for address in functions
            )
        return found

    def test_each_gpu_has_what_it_takes_and_no_more(self) -> None:
        self.configure(write_fragment('A40-8Q', '0000:84:00.0=T4-2Q'))
        self.start_host(HOST, *CARDS)
        self.assertEqual(
            {'0000:41:00.0': 6, '0000:84:00.0': 8, '0000:85:00.0': 0},
            self.totals(*CARDS),
        )

    def test_as_many_servers_can_be_built(self) -> None:
        self.configure(write_fragment('A40-24Q'))
        self.start_host(HOST, *CARDS)
        servers = [self.boot(), self.boot()]
        self.assertEqual(
            [['pci_0000_41_00_4'], ['pci_0000_41_00_5']],
            sorted(self.mdevs_of(server) for server in servers),
        )
        self.boot(expected_state='ERROR')
