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

"""Nova's scheduler and Placement as they are, and hosts that are records.

What a nova-compute writes is written here: the records of its host, its
providers, and what a server takes of it. The rest is Nova's: the manager, its
filters and weighers, the claims in Placement.
"""

import logging
import typing

import fixtures
from nova import context
from nova import objects
from nova import test
from nova.scheduler import manager
from nova.scheduler.client import report
from nova.tests.functional import fixtures as func_fixtures
from oslo_utils.fixture import uuidsentinel

from nova_vgpu.conf import scheduling
from nova_vgpu.scheduler import answers

WEIGHER = 'nova_vgpu.scheduler.weigher.VGPUWeigher'
NOVAS = 'nova.scheduler.weights.all_weighers'
A40_8Q = 'CUSTOM_VGPU_TYPE_A40_8Q'
T4_2Q = 'CUSTOM_VGPU_TYPE_T4_2Q'
ONE_VGPU = {'resources:VGPU': '1'}
_VERSION = '1.36'
_RAM_MB = 1024 * 1024
_VCPUS = 1024

#: The GPUs of a host: the trait of the type and the number of vGPUs of each.
Layout = tuple[tuple[str, int], ...]


class SchedulerTestBase(test.TestCase):
    """A scheduler, and hosts for it."""

    def setUp(self) -> None:
        super().setUp()
        # Nova's tests put every message into words, wanted or not.
        logging.disable(logging.INFO)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.requests: list[tuple[str, str]] = []
        self.servers = 0
        self.hosts: list[str] = []
        self.flags(service_down_time=3600)
        self.flags(notification_format='unversioned', group='notifications')
        self.flags(track_instance_changes=False, group='filter_scheduler')
        # What the weigher puts around it ends with the test.
        self.useFixture(
            fixtures.MockPatchObject(
                report.SchedulerReportClient,
                answers.METHOD,
                getattr(report.SchedulerReportClient, answers.METHOD),
            )
        )
        self.placement = self.useFixture(func_fixtures.PlacementFixture()).api
        for method in ('get', 'put', 'post', 'delete'):
            self._count(method)
        self.ask('PUT', f'/traits/{A40_8Q}')
        self.ask('PUT', f'/traits/{T4_2Q}')

    def _count(self, method: str) -> None:
        """Note what Nova's client asks of Placement."""
        ask = getattr(report.SchedulerReportClient, method)

        def ask_and_note(
            client: typing.Any,
            url: str,
            *args: typing.Any,
            **options: typing.Any,
        ) -> typing.Any:
            self.requests.append((method.upper(), url.partition('?')[0]))
            return ask(client, url, *args, **options)

        self.useFixture(
            fixtures.MockPatchObject(
                report.SchedulerReportClient, method, ask_and_note
            )
        )

    # -- the cloud ----------------------------------------------------------

    def ask(self, method: str, url: str, body: object = None) -> typing.Any:
        """Ask Placement."""
        ask = getattr(self.placement, method.lower())
        bodies = () if method == 'GET' else (body,)
        answer = ask(url, *bodies, version=_VERSION)
        self.assertLess(answer.status, 300, answer.body)
        return answer.body

    def start_host(self, name: str, layout: Layout) -> None:
        """What nova-compute would write at its start."""
        self.hosts.append(name)
        root = self._create_records(name)
        self._create_provider(
            root,
            name,
            {
                'VCPU': {'total': _VCPUS},
                'MEMORY_MB': {'total': _RAM_MB},
            },
            ['OWNER_NOVA'],
        )
        for number, (trait, total) in enumerate(layout):
            self._create_provider(
                self.uuid_of(name, number),
                f'{name}_pci_0000_{number:02x}_00_0',
                {'VGPU': {'total': total}},
                [trait, 'OWNER_NOVA'],
                parent=root,
            )

    def uuid_of(self, host: str, gpu: int) -> str:
        """The UUID of the provider of a GPU, by its number."""
        return str(getattr(uuidsentinel, f'{host}_{gpu}'))

    def start_scheduler(self, *weighers: str, **options: object) -> None:
        """Start nova-scheduler; options of ``[filter_scheduler]``."""
        self.flags(weight_classes=list(weighers), group=scheduling.GROUP)
        if options:
            scheduling.register_opts(manager.CONF)
            self.flags(group=scheduling.GROUP, **options)
        self.scheduler = manager.SchedulerManager()
        # What nova-computes send from time to time; the first one of a host
        # is taken as news of it only.
        for host in self.hosts * 2:
            self.scheduler.sync_instance_info(
                context.get_admin_context(), host, []
            )

    def _create_records(self, name: str) -> str:
        cell = self.cell_mappings['cell1']
        admin = context.get_admin_context()
        with context.target_cell(admin, cell) as targeted:
            service = objects.Service(
                targeted, host=name, binary='nova-compute', topic='compute'
            )
            service.create()
            node = _make_node(targeted, name, service.id)
            node.create()
        objects.HostMapping(admin, host=name, cell_mapping=cell).create()
        return str(node.uuid)

    def _create_provider(
        self,
        uuid: str,
        name: str,
        inventories: dict[str, dict[str, int]],
        traits: list[str],
        parent: str | None = None,
    ) -> None:
        body = {'name': name, 'uuid': uuid, 'parent_provider_uuid': parent}
        self.ask('POST', '/resource_providers', body)
        self.ask(
            'PUT',
            f'/resource_providers/{uuid}/inventories',
            {'inventories': inventories, 'resource_provider_generation': 0},
        )
        self.ask(
            'PUT',
            f'/resource_providers/{uuid}/traits',
            {'traits': traits, 'resource_provider_generation': 1},
        )

    # -- servers ------------------------------------------------------------

    def order(
        self,
        extra_specs: dict[str, str] = ONE_VGPU,
        number: int = 1,
        **filters: typing.Any,
    ) -> list[str]:
        """Schedule servers by one request; gives the names of the hosts."""
        names = range(self.servers, self.servers + number)
        self.servers += number
        uuids = [str(getattr(uuidsentinel, f'server{n}')) for n in names]
        # As in a request by RPC: a context of its own.
        user = context.RequestContext('user', 'project')
        spec = _make_spec(user, uuids[0], extra_specs, filters)
        found = self.scheduler.select_destinations(
            user,
            spec_obj=spec,
            instance_uuids=uuids,
            return_objects=True,
            return_alternates=True,
        )
        hosts = [str(selections[0].service_host) for selections in found]
        for host in hosts:
            self._consume(host)
        return hosts

    def _consume(self, host: str) -> None:
        """What nova-compute writes when it gets a server."""
        with context.target_cell(
            context.get_admin_context(), self.cell_mappings['cell1']
        ) as targeted:
            node = objects.ComputeNode.get_by_host_and_nodename(
                targeted, host, host
            )
            node.vcpus_used += 1
            node.memory_mb_used += 1024
            node.free_ram_mb -= 1024
            servers = int(node.stats['num_instances']) + 1
            node.stats = {'num_instances': str(servers)}
            node.save()

    def used(self, host: str, gpus: int) -> list[int]:
        """How many vGPUs of each GPU of a host are in use."""
        return [
            self.ask(
                'GET', f'/resource_providers/{self.uuid_of(host, n)}/usages'
            )['usages']['VGPU']
            for n in range(gpus)
        ]


def _make_node(targeted: typing.Any, name: str, service_id: int) -> typing.Any:
    return objects.ComputeNode(
        targeted,
        uuid=str(getattr(uuidsentinel, name)),
        host=name,
        hypervisor_hostname=name,
        service_id=service_id,
        vcpus=_VCPUS,
        vcpus_used=0,
        memory_mb=_RAM_MB,
        memory_mb_used=0,
        free_ram_mb=_RAM_MB,
        local_gb=100,
        local_gb_used=0,
        free_disk_gb=100,
        hypervisor_type='QEMU',
        hypervisor_version=10000000,
        cpu_info='{}',
        stats={'num_instances': '0'},
        supported_hv_specs=[],
        cpu_allocation_ratio=1.0,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
    )


def _make_spec(
    user: typing.Any,
    uuid: str,
    extra_specs: dict[str, str],
    filters: dict[str, typing.Any],
) -> typing.Any:
    flavor = objects.Flavor(
        id=1,
        name='vgpu',
        flavorid='vgpu',
        vcpus=1,
        memory_mb=1024,
        root_gb=0,
        ephemeral_gb=0,
        swap=0,
        extra_specs=extra_specs,
    )
    return objects.RequestSpec.from_components(
        user,
        uuid,
        objects.ImageMeta.from_dict({}),
        flavor,
        None,
        None,
        filters,
        None,
        None,
    )
