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

"""Every flavor of the documentation, with a server of its own."""

import collections
import configparser
import copy
import pathlib
import re
import typing
import urllib.parse

import fixtures

from nova_vgpu import configuration
from nova_vgpu.conf import devices
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import simulated
from nova_vgpu.tests.functional.compute import test_servers

EXAMPLES = (
    pathlib.Path(__file__).resolve().parents[4] / 'doc' / 'source' / 'examples'
)
KEY = re.compile(r'(resources|trait)([0-9]*):(\w+)')
IMAGE = 'image '


class Flavor(typing.NamedTuple):
    """A section of the file: properties of a flavor and of an image."""

    name: str
    extra_specs: dict[str, str]
    image: dict[str, str]
    providers: set[str]

    @property
    def amount(self) -> int:
        """How many vGPUs it asks for."""
        return sum(
            int(value)
            for key, value in self.extra_specs.items()
            if key.startswith('resources')
        )

    @property
    def query(self) -> str:
        """What Nova makes of it for Placement.

        The processors are of the group without a number, as those of every
        flavor; so are the traits of the image.
        """
        asked: dict[str, list[str]] = collections.defaultdict(list)
        asked['resources'].append('VCPU:1')
        for key, value in {**self.extra_specs, **self.image}.items():
            match = KEY.fullmatch(key)
            if match is None:
                asked[key].append(value)
            elif match[1] == 'resources':
                asked[f'resources{match[2]}'].append(f'{match[3]}:{value}')
            else:
                sign = {'required': '', 'forbidden': '!'}[value]
                asked[f'required{match[2]}'].append(sign + match[3])
        return urllib.parse.urlencode(
            {key: ','.join(values) for key, values in asked.items()}
        )


def read_flavors() -> list[Flavor]:
    parser = configparser.RawConfigParser(delimiters=('=',))
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read(EXAMPLES / 'flavors.ini')
    flavors = []
    for name in parser.sections():
        specs = dict(parser[name])
        providers = set(specs.pop('providers').split())
        image = {
            key.removeprefix(IMAGE): specs.pop(key)
            for key in list(specs)
            if key.startswith(IMAGE)
        }
        flavors.append(Flavor(name, specs, image, providers))
    return flavors


class DocumentedFlavorsTest(test_servers.OurTestBase):
    def setUp(self) -> None:
        super().setUp()
        if not EXAMPLES.is_dir():
            self.skipTest('the documentation is not part of a wheel')
        self.start_with(
            'compute1',
            'several-types.conf',
            hosts.gpu('41:00.0', boards.A40, vfs=8),
            hosts.gpu('84:00.0', boards.T4),
            hosts.gpu('85:00.0', boards.T4),
            hosts.gpu('c1:00.0', boards.A40),
            hosts.gpu('1:c8:00.0', boards.L40S, vfs=4, vendor_vfio=True),
        )
        self.start_with(
            'compute2',
            'every-option.conf',
            hosts.gpu('41:00.0', boards.A40, vfs=8),
        )

    def start_with(self, host: str, config: str, *gpus: typing.Any) -> None:
        """Start a host with a configuration of the documentation."""
        empty = self.useFixture(fixtures.TempDir()).path
        loaded = configuration.load([str(EXAMPLES / config)], [empty])
        declared = loaded.declaration, loaded.problems
        with fixtures.MockPatchObject(
            devices, 'read_declaration', lambda _conf: declared
        ):
            self.start_host(host, *gpus)

    def test_each_leads_where_the_page_says(self) -> None:
        flavors = read_flavors()
        self.assertNotEqual([], flavors)
        for flavor in flavors:
            candidates = self.list_candidates(flavor)
            self.assertEqual(flavor.providers, candidates, flavor.name)
            self.check_server(flavor)

    def list_candidates(self, flavor: Flavor) -> set[str]:
        """The providers of GPUs among Placement's candidates."""
        found = self.placement.get(
            f'/allocation_candidates?{flavor.query}', version='1.36'
        ).body
        names = {
            uuid: self.placement.get(f'/resource_providers/{uuid}').body[
                'name'
            ]
            for uuid in found['provider_summaries']
        }
        return {
            names[uuid]
            for candidate in found['allocation_requests']
            for uuid in candidate['allocations']
            if '_pci_' in names[uuid]
        }

    def check_server(self, flavor: Flavor) -> None:
        """Build a server; its vGPUs are of those providers."""
        server = self._create_server(
            image_uuid=self.make_image(flavor.image),
            networks='auto',
            flavor_id=self._create_flavor(extra_spec=flavor.extra_specs),
            expected_state='ACTIVE' if flavor.providers else 'ERROR',
        )
        gpus = self.gpus_of(server)
        self.assertLessEqual(set(gpus), flavor.providers, flavor.name)
        if flavor.providers:
            self.assertEqual(flavor.amount, len(gpus), flavor.name)
        if flavor.name.startswith('two-of-two'):
            self.assertEqual(flavor.providers, set(gpus))
        elif flavor.name == 'two-of-one-gpu':
            self.assertEqual(1, len(set(gpus)))
        self._delete_server(server)

    def make_image(self, properties: dict[str, str]) -> str:
        if not properties:
            return simulated.IMAGE
        image = copy.deepcopy(self.glance.show(None, simulated.IMAGE))
        del image['id']
        image['properties'].update(properties)
        return str(self.glance.create(None, image)['id'])

    def gpus_of(self, server: typing.Any) -> list[str]:
        """The provider of the GPU of each vGPU of a server."""
        return [
            f'{host}_{gpu.address.node_device_name}'
            for host in self.simulated
            for function in self.vgpus_of(server, host)
            for gpu in self.simulated[host].gpus
            if function
            in [a.node_device_name for a in (gpu.address, *gpu.vf_addresses)]
        ]
