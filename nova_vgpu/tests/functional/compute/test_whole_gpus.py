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

"""Whole GPUs and vGPUs on one host, configured with what was generated."""

import dataclasses
import pathlib
import types
import typing

import fixtures
from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from nova import exception as nova_exception
import nova.conf
from nova.pci import request
from oslo_config import cfg

from nova_vgpu import values
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.orders import flavor_creation
from nova_vgpu.cloud.orders import flavor_listing
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import whole_gpu_order
from nova_vgpu.conf import devices
from nova_vgpu.conf import opts
from nova_vgpu.generate import nova_conf
from nova_vgpu.generate import type_requests
from nova_vgpu.generate import whole_gpu_lines
from nova_vgpu.host import isolation
from nova_vgpu.plan import mapper
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import kernel
from nova_vgpu.tests import hosts
from nova_vgpu.tests.functional.compute import base
from nova_vgpu.tests.functional.compute import simulated

SHARED, T4, A40 = '0000:41:00.0', '0000:84:00.0', '0000:c1:00.0'
SECOND_A40 = '0000:c2:00.0'
CARDS = (
    hosts.gpu(SHARED, boards.A40, vfs=16),
    hosts.gpu(T4, boards.T4),
    hosts.gpu(A40, boards.A40),
    hosts.gpu(SECOND_A40, boards.A40),
)
PFS = (SHARED, A40, SECOND_A40)
SIZE = flavors.Size(1, 512, 1)
ORDERS = (('T4', 1), ('A40', 1), ('A40', 2))


def write_fragment() -> str:
    """A40-8Q on one GPU, and the others as a whole."""
    host = hosts.make_host(*CARDS)
    by_address = {str(gpu): gpu for gpu in host.gpus}
    types = nova_conf.generate(
        host,
        type_requests.grant(
            host, [values.TypeRequest('A40-8Q', by_address[SHARED])]
        ),
        values.Reader.NOVA_VGPU,
        values.ModesRead(),
    )
    assert types.declaration is not None
    configuration = values.Configuration(types.declaration)
    plan = mapper.make_plan(configuration.plan_input(host, values.ModesRead()))
    read = isolation.read_isolation(kernel.Kernel(*CARDS).files, host)
    requests = [
        values.PassthroughRequest((by_address[address],))
        for address in (T4, A40, SECOND_A40)
    ]
    whole = whole_gpu_lines.generate(requests, read, plan, types)
    return '\n'.join(whole.lines)


class WholeGPUsTest(base.OurDriver, simulated.SimulatedTestBase):
    ADDITIONAL_FILTERS: typing.ClassVar = ['PciPassthroughFilter']

    def setUp(self) -> None:
        super().setUp()
        # It looks into the machine's own sysfs.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.pci.utils.is_physical_function',
                lambda *parts: '{}:{}:{}.{}'.format(*parts) in PFS,
            )
        )
        path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'gpus.conf'
        )
        path.write_text(write_fragment())
        self.configure(path)

    def configure(self, path: pathlib.Path) -> None:
        """Give Nova what its own options make of the file."""
        conf = cfg.ConfigOpts()
        for module, group in (
            ('pci', 'pci'),
            ('scheduler', 'filter_scheduler'),
        ):
            # One object for the process, which keeps what is set through it.
            name = f'nova.conf.{module}.{group}_group'
            with fixtures.MonkeyPatch(name, cfg.OptGroup(group)):
                getattr(nova.conf, module).register_opts(conf)
        conf(
            ['--config-file', str(path)],
            default_config_files=[],
            default_config_dirs=[],
        )
        for group, options in (
            ('pci', ('report_in_placement', 'device_spec', 'alias')),
            ('filter_scheduler', ('pci_in_placement',)),
        ):
            for option in options:
                self.flags(group=group, **{option: conf[group][option]})
        request.get_alias_from_config.cache_clear()
        self.addCleanup(request.get_alias_from_config.cache_clear)
        declaration, _ = devices.read_declaration(conf)
        (declared,) = declaration.types
        self.flags(enabled_mdev_types=[declared.name], group='devices')
        nova.conf.devices.register_dynamic_opts(nova.conf.CONF)
        self.flags(
            device_addresses=list(declared.device_addresses),
            group=f'mdev_{declared.name}',
        )
        opts.register_opts(nova.conf.CONF)
        self.flags(unlisted_gpus=declaration.unlisted.value, group='devices')

    def connect(self) -> reader.Cloud:
        """The library on the Placement of Nova's tests."""
        auth = token_endpoint.Token(self.placement.fixture.endpoint, 'admin')
        placement = adapter.Adapter(
            session.Session(auth=auth), service_type='placement'
        )
        connection: typing.Any = types.SimpleNamespace(placement=placement)
        return reader.Cloud(connection)

    def make_flavor(self, model: str, count: int = 1) -> flavors.Flavor:
        """A flavor as ``openstack vgpu flavor create`` makes it."""
        return flavor_creation.make_flavor(
            flavor_creation.FlavorRequest(
                'whole', None, SIZE, count, passthrough=model
            ),
            whole_gpu_order.find_model(self.connect().list_every_gpu(), model),
        )

    def order(
        self, model: str, count: int = 1, **options: typing.Any
    ) -> typing.Any:
        """A server with whole GPUs."""
        flavor = self._create_flavor(
            extra_spec=dict(self.make_flavor(model, count).extra_specs)
        )
        return self.boot(flavor_id=flavor, **options)

    def count_room(self, model: str, count: int = 1) -> int:
        """How many more such servers fit, as the library says."""
        flavor = self.make_flavor(model, count)
        return flavor_listing.count_room(self.connect(), flavor).servers

    def driver_of(self, address: str) -> str | None:
        found = values.PciAddress.parse(address)
        return self.simulated['host1'].kernel.get(found).bound_driver

    def test_servers_get_whole_gpus_beside_vgpus(self) -> None:
        self.start_host('host1', *CARDS)
        for address, resource_class, trait in (
            (T4, 'CUSTOM_GPU_T4', 'CUSTOM_GPU_MODEL_T4'),
            (A40, 'CUSTOM_GPU_A40', 'CUSTOM_GPU_MODEL_A40'),
        ):
            device = address.upper()  # as Nova names such a provider
            found = self.inventory(device, resource_class)
            self.assertEqual(1, (found or {}).get('total'), address)
            traits = self._get_provider_traits(self.provider(device))
            self.assertIn(trait, traits)
        self.assertIsNone(self.provider('pci_0000_84_00_0'))
        shared = self.boot()
        rooms = [self.count_room(*of) for of in ORDERS]
        small, big = self.order('T4'), self.order('a40', 2)
        self.assertEqual(['pci_0000_84_00_0'], self.names_of(small))
        self.assertEqual(
            ['pci_0000_c1_00_0', 'pci_0000_c2_00_0'], self.names_of(big)
        )
        self.assertEqual(['pci_0000_41_00_4'], self.mdevs_of(shared))
        self.assertEqual('vfio-pci', self.driver_of(T4))
        self._run_periodics(raise_on_error=True)
        # All are in use, and a vGPU of the same model is not a whole GPU.
        for model in ('T4', 'A40'):
            self.order(model, expected_state='ERROR')
        self.assertEqual([1, 2, 1], rooms)
        self.assertEqual([0, 0, 0], [self.count_room(*of) for of in ORDERS])
        self._delete_server(small)
        self.assertEqual('nvidia', self.driver_of(T4))
        self.assertEqual(
            ['pci_0000_84_00_0'], self.names_of(self.order('NVIDIA T4'))
        )
        self.assertEqual(['pci_0000_41_00_4'], self.mdevs_of(shared))

    def test_a_resource_class_alone_gives_a_server_no_device(self) -> None:
        """Why flavors ask by alias."""
        self.start_host('host1', *CARDS)
        flavor = self._create_flavor(
            extra_spec={'resources:CUSTOM_GPU_T4': '1'}
        )
        server = self.boot(flavor_id=flavor)
        self.assertEqual([], self.names_of(server))

    def test_nova_refuses_a_gpu_with_its_vfs(self) -> None:
        """Why VFs of a whole GPU have to be off."""
        on = dataclasses.replace(CARDS[2], vfs=4)
        self.assertRaises(
            nova_exception.PlacementPciException,
            self.start_host,
            'host1',
            *CARDS[:2],
            on,
        )

    def test_no_server_gets_a_gpu_whose_group_is_not_clean(self) -> None:
        """The reason for the check: the guest would not start."""
        audio = hosts.gpu('84:00.1', boards.GPU_AUDIO)
        self.start_host('host1', *CARDS, audio)
        self.order('T4', expected_state='ERROR')
        self.assertEqual('nvidia', self.driver_of(T4))
