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

"""``openstack vgpu`` as users run it, in a real cloud.

What the commands print is in the documentation: it is kept in
``doc/source/examples`` and compared here.
"""

import dataclasses
import functools
import uuid

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.gpus import types
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.cloud.usage import consumers
from nova_vgpu.tests import placements
from nova_vgpu.tests import proxy
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import base
from nova_vgpu.tests.cloud import filling
from nova_vgpu.tests.cloud import scene


class CommandsTest(base.CloudTest):
    def test_the_page_has_real_output(self) -> None:
        self.compare('openstack-type-list.txt', 'type', 'list')
        self.compare('openstack-gpu-list.txt', 'gpu', 'list')
        self.compare(
            'openstack-gpu-show.txt',
            *('gpu', 'show', '84:00.0', '--host', 'compute1'),
        )
        self.compare(
            'openstack-gpu-show-passthrough.txt',
            *('gpu', 'show', 'c1:00.0', '--host', 'compute2', '-f', 'json'),
        )
        self.compare(
            'openstack-type-list-json.txt',
            *('type', 'list', '--long', '--model', 'a40', '-f', 'json'),
        )

    def test_an_ordinary_user_is_told_what_role_is_required(self) -> None:
        self.refuse_ordinary_user('type', 'list')

    def test_an_unknown_gpu_is_refused_without_control_characters(
        self,
    ) -> None:
        code, stdout, stderr = self.run_command('gpu', 'show', 'no\x1b[2J')
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn(r'a GPU no\x1b[2J.', stderr)

    def test_control_characters_of_names_are_escaped(self) -> None:
        root, child = str(uuid.uuid4()), str(uuid.uuid4())
        name = 'bad\x1b[2J\nname'
        self.placement.create(name, root)
        self.placement.create(f'{name}_pci_0000_99_00_0', child, root)
        self.placement.set(child, 'inventories', {'VGPU': {'total': 2}})
        code, stdout, stderr = self.run_command('gpu', 'list', '-f', 'value')
        self.placement.call('DELETE', f'/resource_providers/{child}')
        self.placement.call('DELETE', f'/resource_providers/{root}')
        self.assertEqual((0, ''), (code, stderr))
        self.assertIn(r'bad\x1b[2J\nname 0000:99:00.0', stdout)

    def count(self) -> tuple[int, int]:
        for each in self.cloud.proxies.values():
            each.reset()
        gpus = self.reader.list_gpus()
        found = types.list_types(gpus, self.reader.list_flavors())
        self.assertEqual(3, len(found))
        return (
            len(self.cloud.proxies['placement'].seen),
            len(self.cloud.proxies['compute'].seen),
        )

    def test_requests_do_not_grow_with_vgpus(self) -> None:
        before = self.count()
        # All providers; those with memory and, for the host without, with
        # disk; the inventories of the GPU that is full and the fenced one.
        self.assertEqual((5, 1), before)
        made = []
        for gpu in scene.GPUS[:2]:
            for _ in range(gpu.total - len(gpu.consumers) - 1):
                made.append(str(uuid.uuid4()))
                self.placement.allocate(made[-1], gpu.uuid, 'VGPU', 1)
        after = self.count()
        for consumer in made:
            self.placement.call('DELETE', f'/allocations/{consumer}')
        self.assertEqual(11, len(made))
        self.assertEqual(before, after)

    def count_whole(self) -> tuple[int, int]:
        """Whole GPUs, and the requests that it takes to list all GPUs."""
        self.cloud.proxies['placement'].reset()
        found = [
            gpu
            for gpu in self.reader.list_every_gpu()
            if whole_gpu_fleet.is_gpu(gpu)
        ]
        return len(found), len(self.cloud.proxies['placement'].seen)

    def test_requests_do_not_grow_with_whole_gpus(self) -> None:
        self.assertEqual((4, 5), self.count_whole())
        made = [
            scene.whole('compute1', f'0000:D{n}:00.0', 'A40') for n in range(9)
        ]
        for gpu in made:
            filling.add_gpu(self.placement, gpu)
        consumers = [str(uuid.uuid4()) for _ in made[1:]]
        for gpu, consumer in zip(made, consumers, strict=False):
            self.placement.allocate(consumer, gpu.uuid, gpu.resource_class, 1)
        after = self.count_whole()
        gpus = self.reader.list_gpus()
        for consumer in consumers:
            self.placement.call('DELETE', f'/allocations/{consumer}')
        for gpu in made:
            self.placement.call('DELETE', f'/resource_providers/{gpu.uuid}')
        self.assertEqual((13, 5), after)
        # They are not among what serves vGPUs.
        self.assertEqual(len(scene.GPUS), len(gpus))

    def test_a_host_where_nothing_is_free_is_read(self) -> None:
        root = scene.uuid_of('compute3')
        made = []
        for resource_class, amount in (('VCPU', 256), ('DISK_GB', 2048)):
            made.append(str(uuid.uuid4()))
            self.placement.allocate(made[-1], root, resource_class, amount)
        gpus = self.reader.list_gpus()
        for consumer in made:
            self.placement.call('DELETE', f'/allocations/{consumer}')
        self.assertEqual(gpus, self.reader.list_gpus())
        self.assertEqual('fenced', gpus[-1].state.value)

    def test_an_aggregate_has_its_hosts(self) -> None:
        self.assertEqual(
            {'compute1', 'compute3'}, self.reader.list_members('workstations')
        )
        error = self.assertRaises(
            exception.NotInCloud, self.reader.list_members, 'n\to'
        )
        self.assertEqual(
            r'Nova has no aggregate n\to. Aggregates: workstations.',
            str(error),
        )

    def test_a_migration_is_told_from_a_server(self) -> None:
        gpu = self.reader.list_gpus()[1]
        self.assertEqual(
            (
                consumers.Consumer(
                    scene.MIGRATION,
                    1,
                    project=accounts.PROJECTS['research'],
                    classes=('VGPU',),
                ),
            ),
            self.reader.list_consumers(gpu),
        )

    def test_a_placement_that_fails_in_the_middle_is_named(self) -> None:
        for number in range(5):
            self.cloud.proxies['placement'].reset(
                functools.partial(_fail_from, number)
            )
            hasty = reader.Cloud(
                self.connection,
                dataclasses.replace(placements.PATIENT, deadline=0.05),
            )
            error = self.assertRaises(
                exception.PlacementError, hasty.list_gpus
            )
            self.assertIn('Placement does not answer', str(error))

    def test_a_nova_that_fails_is_named(self) -> None:
        self.cloud.proxies['compute'].reset(
            lambda _number: proxy.Fault.UNAVAILABLE
        )
        error = self.assertRaises(
            exception.CloudError, self.reader.list_flavors
        )
        self.assertIn('Nova did not list flavors: ', str(error))


def _fail_from(first: int, number: int) -> proxy.Fault | None:
    return proxy.Fault.UNAVAILABLE if number >= first else None
