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

"""``openstack vgpu render`` as engineers run it, in a real cloud.

What the commands print is in the documentation: it is kept in
``doc/source/examples`` and compared here.
"""

import contextlib
import importlib
import pathlib
import sqlite3
import typing
import uuid

import fixtures

from nova_vgpu.cloud.nodes import capo
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import base
from nova_vgpu.tests.cloud import scene

# Not by a statement: its type hints are a package of their own.
YAML = importlib.import_module('yaml')

UEFI = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'}
IMAGE = 'ubuntu-24.04-k8s'
# For one test: Glance does not take the ID of a deleted image again.
IMAGE_ID = scene.uuid_of('image of nodes')
ALICE = {'user': accounts.USER, 'project': accounts.USER_PROJECT}
A40 = {'resources:VGPU': '1', 'trait:CUSTOM_VGPU_TYPE_A40_8Q': 'required'}
SIZE = flavors.Size(4, 16384, 40)
PROGRAMS = ('heat', 'terraform')
HOSTILE = 'a"\' {b} # - [c]'
DRIVER = (
    *('--driver-image', 'registry.example.org/nvidia/vgpu-guest:580.95.05'),
    *('--licence-secret', 'gpu-licence'),
)
CLUSTER = ('--cluster', 'demo', '--kubernetes-version', 'v1.34.2')


class RenderTest(base.CloudTest):
    """The cloud has six free A40-8Q, all of them on one host."""

    def setUp(self) -> None:
        super().setUp()
        self.make_flavor('gpu-a40', A40)
        self.make_image(IMAGE, **UEFI)

    def make_flavor(
        self,
        name: str,
        specs: dict[str, str],
        size: flavors.Size = SIZE,
    ) -> str:
        compute = self.connection.compute
        made = compute.create_flavor(
            name=name, vcpus=size.vcpus, ram=size.ram_mib, disk=size.disk_gib
        )
        self.addCleanup(compute.delete_flavor, made.id)
        if specs:
            compute.create_flavor_extra_specs(made.id, specs)
        return str(made.id)

    def make_image(
        self, name: str, identity: str | None = None, **properties: str
    ) -> None:
        body = {
            'id': identity or str(uuid.uuid4()),
            'name': name,
            'disk_format': 'raw',
            'container_format': 'bare',
            'visibility': 'public',
        }
        image = self.connection.image
        image.post('/images', json=body | properties).raise_for_status()
        self.addCleanup(image.delete_image, body['id'])

    def render(
        self, *words: str, image: str = IMAGE, **account: str
    ) -> tuple[list[dict[str, typing.Any]], str]:
        """The objects that are rendered, and what is said beside them."""
        code, stdout, stderr = self.run_command(
            *('render', 'capo', *words, *CLUSTER, '--image', image), **account
        )
        self.assertEqual(0, code, stderr)
        return list(YAML.safe_load_all(stdout)), stderr

    def refuse(self, *words: str, **account: str) -> str:
        code, stdout, stderr = self.run_command(
            'render', 'capo', *words, **account
        )
        self.assertEqual((1, ''), (code, stdout))
        return ' '.join(stderr.split())

    def test_the_page_has_real_output(self) -> None:
        words = ('gpu-a40', '--nodes', '3', *CLUSTER, '--image', IMAGE)
        for part in capo.PARTS:
            self.compare(
                f'openstack-render-capo-{part}.txt',
                *('render', 'capo', *words, *DRIVER, '--only', part),
            )
        self.compare(
            'openstack-render-refused.console',
            *('render', 'capo', 'gpu-a40', '--nodes', '7', '--cluster'),
            *('demo', '--kubernetes-version', 'v1.34.2', '--image', IMAGE),
            '--driver-in-image',
            status=1,
            notes=(
                'Not enough room for nodes with flavor gpu-a40: 7 are asked '
                'for, 6 fit, by what Placement has left of processors, '
                'memory, disk and GPUs. Ask for fewer, or for another flavor: '
                '"openstack vgpu flavor list" shows what fits.\n'
            ),
        )

    def test_nothing_is_written_to_the_cloud(self) -> None:
        for each in self.cloud.proxies.values():
            each.reset()
        self.render('gpu-a40', '--nodes', '6', *DRIVER)
        for name, each in self.cloud.proxies.items():
            if name != 'identity':  # where it gets a token
                self.assertEqual([], each.writes, name)

    def test_as_many_as_fit_and_not_one_more(self) -> None:
        objects, stderr = self.render('gpu-a40', '--nodes', '6', *DRIVER)
        self.assertEqual('', stderr)
        self.assertEqual(5, len(objects))
        consumer = str(uuid.uuid4())
        self.placement.allocate(consumer, scene.GPUS[2].uuid, 'VGPU', 4)
        text = self.refuse(
            *('gpu-a40', '--nodes', '3', *CLUSTER, '--image', IMAGE),
            '--driver-in-image',
        )
        self.placement.call('DELETE', f'/allocations/{consumer}')
        self.assertIn('flavor gpu-a40: 3 are asked for, 2 fit,', text)

    def test_workers_and_control_plane_share_the_room(self) -> None:
        control = ('--control-plane-flavor', 'gpu-a40')
        objects, _ = self.render(
            *('gpu-a40', '--nodes', '3', '--control-plane-nodes', '3'),
            *(*control, *DRIVER, '--only', 'machines'),
        )
        self.assertIn('KubeadmControlPlane', [o['kind'] for o in objects])
        text = self.refuse(
            *('gpu-a40', '--nodes', '4', '--control-plane-nodes', '3'),
            *(*control, *DRIVER, *CLUSTER, '--image', IMAGE),
        )
        self.assertIn('flavor gpu-a40: 7 are asked for, 6 fit,', text)

    def test_a_cluster_that_cannot_grow_is_told(self) -> None:
        objects, stderr = self.render(
            *('gpu-a40', '--nodes', '0', '--max-nodes', '9', *DRIVER),
            *('--only', 'machines'),
        )
        self.assertNotIn('replicas', objects[-1]['spec'])
        self.assertIn('flavor gpu-a40: 9 are the most, 6 fit now', stderr)

    def make_zone(self, name: str, host: str) -> None:
        """Nova tells Placement of hosts in aggregates.

        It refuses to give hosts with servers another zone, so that is written
        into its database.
        """
        compute = self.connection.compute
        made = compute.create_aggregate(name=name)
        self.addCleanup(compute.delete_aggregate, made)
        compute.add_host_to_aggregate(made, host)
        self.addCleanup(compute.remove_host_from_aggregate, made, host)
        row = (made.id, 'availability_zone', name)
        with contextlib.closing(
            sqlite3.connect(self.cloud.path / 'nova_api.sqlite')
        ) as database:
            database.execute(
                'INSERT INTO aggregate_metadata (aggregate_id, key, value) '
                'VALUES (?, ?, ?)',
                row,
            )
            database.commit()
        self.addCleanup(self.remove_metadata, made.id)

    def remove_metadata(self, aggregate: str) -> None:
        with contextlib.closing(
            sqlite3.connect(self.cloud.path / 'nova_api.sqlite')
        ) as database:
            database.execute(
                'DELETE FROM aggregate_metadata WHERE aggregate_id = ?',
                (aggregate,),
            )
            database.commit()

    def test_room_is_that_of_the_zone(self) -> None:
        self.make_zone('old', 'compute1')
        self.make_zone('new', 'compute2')
        words = ('gpu-a40', '--nodes', '3', '--image', IMAGE)
        capo_words = ('capo', *words, *CLUSTER, *DRIVER, '--failure-domain')
        heat_words = ('heat', *words, '--name', 'a', '--network', 'b')
        for command in (capo_words, (*heat_words, '--availability-zone')):
            code, stdout, stderr = self.run_command('render', *command, 'old')
            self.assertEqual((1, ''), (code, stdout))
            self.assertIn('zone old: 3 are asked for, 0 fit,', stderr)
            code, stdout, stderr = self.run_command('render', *command, 'new')
            self.assertEqual((0, ''), (code, stderr))
            self.assertNotIn('all zones', stdout)
        # Hosts of no zone are in the default one, which no aggregate makes.
        code, stdout, stderr = self.run_command('render', *capo_words, 'nova')
        self.assertEqual(0, code)
        self.assertIn('no aggregate of Nova has zone nova', stderr)
        self.assertIn('# Room was checked in all zones', stdout)

    def test_nodes_without_memory_for_pods(self) -> None:
        self.make_flavor('small', A40, flavors.Size(1, 1024, 40))
        server = ('--name', 'a', '--network', 'b')
        for command, more in (
            ('magnum', ('--cluster', 'demo')),
            ('heat', server),
            ('terraform', server),
        ):
            code, stdout, stderr = self.run_command(
                *('render', command, 'small', *more, '--image', IMAGE)
            )
            self.assertEqual((1, ''), (code, stdout))
            self.assertIn('1024 MiB of memory, of which 643', stderr)

    def test_a_type_leads_to_the_flavor_that_brings_it(self) -> None:
        objects, _ = self.render('--type', 'nvidia a40-8q', *DRIVER)
        self.assertEqual(
            {'filter': {'name': 'gpu-a40'}},
            objects[0]['spec']['template']['spec']['flavor'],
        )

    def test_nodes_with_several_whole_gpus(self) -> None:
        for count in (2, 3):
            specs = {'pci_passthrough:alias': f'gpu-A40:{count}'}
            self.make_flavor(f'whole-{count}', specs)
        objects, stderr = self.render('whole-2', *DRIVER)
        self.assertEqual('', stderr)
        pod = objects[-1]['spec']['template']['spec']
        self.assertEqual(2, len(pod['initContainers']))
        # One of the three is in use.
        text = self.refuse(
            *('--passthrough', 'A40', '--count', '3', '--driver-in-image'),
            *(*CLUSTER, '--image', IMAGE),
        )
        self.assertIn('flavor whole-3: 1 are asked for, 0 fit,', text)

    def test_names_of_the_cloud_stay_names(self) -> None:
        self.make_flavor(HOSTILE, A40)
        self.make_image(HOSTILE)
        objects, stderr = self.render(
            HOSTILE, '--driver-in-image', '--key-name', HOSTILE, image=HOSTILE
        )
        self.assertEqual(
            {
                'flavor': {'filter': {'name': HOSTILE}},
                'image': {'filter': {'name': HOSTILE}},
                'sshKeyName': HOSTILE,
            },
            objects[0]['spec']['template']['spec'],
        )
        self.assertIn('hw_firmware_type=uefi and hw_machine_type', stderr)

    def test_a_flavor_with_another_space_in_its_name(self) -> None:
        name = 'gpu\u3000a40'
        self.make_flavor(name, A40)
        objects, _ = self.render(name, '--driver-in-image')
        self.assertEqual(
            {'filter': {'name': name}},
            objects[0]['spec']['template']['spec']['flavor'],
        )

    def test_a_flavor_without_a_disk_boots_from_a_volume(self) -> None:
        """Which then is not taken from the host's disk."""
        self.make_flavor('diskless', A40, flavors.Size(4, 16384, 0))
        words = ('diskless', '--driver-in-image')
        text = self.refuse(*words, *CLUSTER, '--image', IMAGE)
        self.assertIn('Flavor diskless has no root disk', text)
        objects, _ = self.render(*words, '--root-volume', '80')
        spec = objects[0]['spec']['template']['spec']
        self.assertEqual({'sizeGiB': 80}, spec['rootVolume'])

    def test_everything_wrong_is_named_at_once(self) -> None:
        code, stdout, stderr = self.run_command(
            *('render', 'capo', 'gpu-a40', '--image', 'no\x1bne'),
            *('--nodes', '0', '--control-plane-nodes', '1'),
            *('--control-plane-flavor', 'absent'),
        )
        self.assertEqual((1, ''), (code, stdout))
        for words in (
            '--cluster is missing',
            '--kubernetes-version is missing',
            '--nodes 0 is too small',
            '--driver-image is missing',
            '--licence-secret is missing',
            r'Glance has no image no\x1bne',
            '--control-plane-flavor: Nova has no flavor absent',
        ):
            self.assertIn(words, ' '.join(stderr.split()))

    def test_flavors_that_make_no_node_with_a_gpu(self) -> None:
        self.make_flavor('small', A40, flavors.Size(1, 1024, 40))
        for name, words in (
            ('plain', 'brings neither vGPUs nor whole GPUs'),
            ('small', 'Flavor small has 1024 MiB of memory, of which 643'),
            ('absent', 'Nova has no flavor absent'),
        ):
            text = self.refuse(
                *(name, *CLUSTER, '--image', IMAGE, '--driver-in-image')
            )
            self.assertIn(words, text)

    def test_files_are_written_once(self) -> None:
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'out'
        words = ('gpu-a40', *DRIVER, '-o', str(top))
        objects, stderr = self.render(*words)
        self.assertEqual([], objects)
        names = [
            'gpu-operator-values.yaml',
            'machines.yaml',
            'smoke-test.yaml',
        ]
        self.assertEqual(names, sorted(each.name for each in top.iterdir()))
        self.assertIn(f'Written: {top}/machines.yaml', stderr)
        text = self.refuse(*words, *CLUSTER, '--image', IMAGE)
        self.assertIn('Nothing was written, as these exist', text)
        self.render(*words, '--overwrite', '--only', 'machines')

    # -- servers ------------------------------------------------------------

    def test_servers_that_fit(self) -> None:
        words = ('gpu-a40', '--nodes', '3', '--name', 'worker')
        for program in PROGRAMS:
            self.compare(
                f'openstack-render-{program}.txt',
                *('render', program, *words, '--network', 'kubernetes'),
                *('--image', IMAGE),
            )

    def test_servers_that_do_not_fit(self) -> None:
        words = ('gpu-a40', '--network', 'kubernetes', '--nodes', '7')
        for program in PROGRAMS:
            code, stdout, stderr = self.run_command(
                *('render', program, *words, '--name', 'worker'),
                *('--image', IMAGE),
            )
            self.assertEqual((1, ''), (code, stdout))
            self.assertIn('7 are asked for, 6 fit,', stderr)

    def test_everything_wrong_with_servers_is_named_at_once(self) -> None:
        for program in PROGRAMS:
            code, stdout, stderr = self.run_command(
                'render', program, 'plain', '--image', 'absent', **ALICE
            )
            self.assertEqual((1, ''), (code, stdout))
            self.assertIn('requires the role "admin"', stderr)
            code, stdout, stderr = self.run_command(
                *('render', program, 'plain', '--image', 'absent'),
                '--no-fit-check',
                **ALICE,
            )
            self.assertEqual((1, ''), (code, stdout))
            for words in (
                '--name is missing',
                '--network is missing',
                'Flavor plain brings neither vGPUs nor whole GPUs',
                'Glance has no image absent',
            ):
                self.assertIn(words, stderr)

    def test_a_node_group(self) -> None:
        words = ('render', 'magnum', 'gpu-a40', '--cluster', 'demo')
        self.make_image('magnum-nodes', IMAGE_ID, **UEFI)
        self.compare(
            'openstack-render-magnum.txt',
            *(*words, '--image', 'magnum-nodes', '--nodes', '3'),
        )
        code, stdout, stderr = self.run_command(
            *(*words, '--image', IMAGE, '--nodes', '7', '--pool', 'A')
        )
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn('--pool A is not valid', stderr)
        text = (*words, '--image', IMAGE, '--nodes', '7')
        code, stdout, stderr = self.run_command(*text)
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn('7 are asked for, 6 fit,', stderr)
        code, stdout, stderr = self.run_command(*text, **ALICE)
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn('--no-fit-check renders without asking', stderr)

    # -- accounts -----------------------------------------------------------

    def test_an_ordinary_user_renders_without_the_check(self) -> None:
        words = ('gpu-a40', '--nodes', '7', *DRIVER)
        text = self.refuse(*words, *CLUSTER, '--image', IMAGE, **ALICE)
        self.assertIn('requires the role "admin"', text)
        self.assertIn('--no-fit-check renders without asking', text)
        objects, stderr = self.render(*words, '--no-fit-check', **ALICE)
        self.assertIn('it was not checked whether the nodes fit', stderr)
        # Apart from that, it is what an administrator gets.
        self.assertEqual(self.render(*words, '--no-fit-check')[0], objects)

    def test_without_the_check_placement_is_not_asked(self) -> None:
        placement = self.cloud.proxies['placement']
        placement.reset()
        self.render('--type', 'A40-8Q', *DRIVER, '--no-fit-check')
        # The client asks for the versions of all services.
        self.assertEqual({'/'}, {seen.path for seen in placement.seen})
