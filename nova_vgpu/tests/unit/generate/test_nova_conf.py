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

"""What is generated for which reader, and what is not."""

import dataclasses
import json
import re
import typing

import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.generate import nova_conf
from nova_vgpu.generate import type_requests
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts

OURS, NOVAS, PCI = values.Reader


def generate(
    host: values.Host, reader: values.Reader, *types: str
) -> values.Fragment:
    wished = [values.TypeRequest(type_) for type_ in types]
    granted = type_requests.grant(host, wished)
    return nova_conf.generate(host, granted, reader, values.ModesRead())


def with_vgpus(
    board: boards.Board, *created: simulation.Created, vendor_vfio: bool
) -> values.Host:
    return hosts.make_host(
        simulation.GPU(
            values.PciAddress.parse('41:00.0'),
            board,
            vfs=16,
            vendor_vfio=vendor_vfio,
            created=created,
        )
    )


def full_of_another_type() -> values.Host:
    """A GPU with a 48A on it that lists 48Q all the same."""
    one, two = (
        values.PciAddress.parse(f'41:00.{number}') for number in (4, 5)
    )
    offer = values.Offer(values.VGPUType('nvidia-1156', 'NVIDIA L40S-48Q'), 1)
    held = values.VGPU(one.node_device_name, 'nvidia-1166')
    (empty,) = with_vgpus(boards.L40S, vendor_vfio=True).gpus
    vfs = (
        values.VirtualFunction(one, 'nvidia', (), (held,), True),
        values.VirtualFunction(two, 'nvidia', (offer,), (), True),
    )
    return values.Host((dataclasses.replace(empty, vfs=vfs),))


class TestForUs(testtools.TestCase):
    def test_types_go_by_name_and_gpus_by_address(self) -> None:
        host = hosts.make_host(
            hosts.gpu('41:00.0', boards.A40, vfs=8),
            hosts.gpu('84:00.0', boards.T4),
            hosts.gpu('85:00.0', boards.T4),
        )
        lines = generate(host, OURS, 'nvidia-231', 'NVIDIA A40-8Q').lines
        first = lines.index('[devices]')
        self.assertEqual(
            (
                '[devices]',
                'enabled_vgpu_types = T4-2Q, A40-8Q',
                '',
                '[vgpu_T4-2Q]',
                '# 0000:84:00.0: T4, 8 vGPUs',
                '# 0000:85:00.0: T4, 8 vGPUs',
                'device_addresses = 0000:84:00.0, 0000:85:00.0',
                '',
                '[vgpu_A40-8Q]',
                '# 0000:41:00.0: A40, 6 vGPUs',
                'device_addresses = 0000:41:00.0',
            ),
            lines[first:],
        )

    def test_a_gpu_that_is_not_wished_for_is_left_alone(self) -> None:
        t4 = hosts.gpu('84:00.0', boards.T4)
        for other, left_alone in (
            (hosts.gpu('41:00.0', boards.A40, vfs=8), True),
            (hosts.gpu('41:00.0', boards.A40), True),
            (hosts.gpu('41:00.0', boards.A40, driver='vfio-pci'), True),
            (hosts.gpu('41:00.0', boards.INSTINCT_MI210), False),
            (hosts.gpu('41:00.0', boards.NETWORK_CARD), False),
        ):
            for reader in (OURS, NOVAS):
                lines = generate(
                    hosts.make_host(t4, other), reader, 'T4-2Q'
                ).lines
                self.assertEqual(
                    left_alone, 'unlisted_gpus = ignore' in lines, str(other)
                )
                self.assertEqual(left_alone, '0000:41:00.0' in str(lines))

    def test_a_name_that_means_two_types_is_not_written(self) -> None:
        gpu = values.PhysicalGPU(
            'mtty_mtty',
            offers=(
                values.Offer(values.VGPUType('nvidia-1', 'NVIDIA A40-8Q'), 1),
                values.Offer(values.VGPUType('nvidia-2', 'NVIDIA A40-8Q'), 1),
            ),
        )
        lines = generate(values.Host((gpu,)), OURS, 'nvidia-2').lines
        self.assertIn('enabled_vgpu_types = nvidia-2', lines)
        self.assertIn('device_addresses = mtty_mtty', lines)

    def test_what_no_file_could_hold_is_refused(self) -> None:
        for odd in ('a,b', 'a\nb', 'a ] b', '$x', '"q"', 'x #y'):
            gpu = values.PhysicalGPU(
                'mtty_mtty', offers=(values.Offer(values.VGPUType(odd), 1),)
            )
            for reader in (OURS, NOVAS):
                error = self.assertRaises(
                    exception.RequestRefusedError,
                    generate,
                    values.Host((gpu,)),
                    reader,
                    odd,
                )
                self.assertIn('GPU mtty_mtty', str(error))

    def test_lines_are_short_and_break_between_entries(self) -> None:
        cards = [hosts.gpu(f'{n:02x}:00.0', boards.T4) for n in range(1, 30)]
        fragment = generate(hosts.make_host(*cards), OURS, 'T4-2Q')
        self.assertLessEqual(max(map(len, fragment.lines)), 79)
        text = ' '.join(fragment.lines)
        for card in cards:
            self.assertIn(f' {card.address}', text)


class TestForNova(testtools.TestCase):
    def addresses(self, host: values.Host, wish: str) -> tuple[str, ...]:
        declaration = generate(host, NOVAS, wish).declaration
        assert declaration is not None
        (declared,) = declaration.types
        return declared.device_addresses

    def test_types_go_by_id(self) -> None:
        host = hosts.make_host(hosts.gpu('84:00.0', boards.T4))
        lines = generate(host, NOVAS, 'T4-2Q').lines
        self.assertIn('enabled_mdev_types = nvidia-231', lines)
        self.assertIn('[mdev_nvidia-231]', lines)
        self.assertIn('# 0000:84:00.0: T4, T4-2Q, 8 vGPUs', lines)
        self.assertIn('device_addresses = 0000:84:00.0', lines)

    def test_as_many_functions_as_the_gpu_takes_vgpus(self) -> None:
        host = with_vgpus(boards.A40, vendor_vfio=False)
        self.assertEqual(
            (
                '0000:41:00.4',
                '0000:41:00.5',
                '0000:41:00.6',
                '0000:41:00.7',
                '0000:41:01.0',
                '0000:41:01.1',
            ),
            self.addresses(host, 'A40-8Q'),
        )

    def test_functions_that_hold_vgpus_are_among_them(self) -> None:
        host = with_vgpus(
            boards.A40,
            simulation.Created('nvidia-564', vf=12),
            simulation.Created('nvidia-564', vf=15),
            vendor_vfio=False,
        )
        self.assertEqual(
            ('0000:41:00.4', '0000:41:02.0', '0000:41:02.3'),
            self.addresses(host, 'A40-16Q'),
        )

    def test_a_vgpu_of_another_type_takes_one_of_the_places(self) -> None:
        # 8C beside 8Q: the GPU takes one vGPU of 8Q less, until it is gone.
        host = with_vgpus(
            boards.A40,
            simulation.Created('nvidia-583', vf=15),
            vendor_vfio=False,
        )
        found = self.addresses(host, 'A40-8Q')
        self.assertEqual(6, len(found))
        self.assertIn('0000:41:02.3', found)

    def test_there_is_no_max_instances(self) -> None:
        host = with_vgpus(boards.A40, vendor_vfio=False)
        text = '\n'.join(generate(host, NOVAS, 'A40-8Q').lines)
        self.assertNotIn('max_instances', text)

    def test_gpus_that_nova_cannot_serve_are_refused(self) -> None:
        for host, wish, words in (
            (
                with_vgpus(boards.L40S, vendor_vfio=True),
                'L40S-8Q',
                ('has no mediated devices', '--for pci'),
            ),
            (
                hosts.make_host(hosts.gpu('41:00.0', boards.A40)),
                'A40-8Q',
                ('VFs are not enabled', 'sriov enable', '--type GPU=TYPE'),
            ),
        ):
            error = self.assertRaises(
                exception.RequestRefusedError, generate, host, NOVAS, wish
            )
            for word in ('GPU 0000:41:00.0', *words):
                self.assertIn(word, str(error))


class TestMaximum(testtools.TestCase):
    """Where nothing tells how many vGPUs a GPU takes of a type."""

    def host(self, name: str, *, vendor_vfio: bool) -> values.Host:
        (empty,) = with_vgpus(boards.A40, vendor_vfio=vendor_vfio).gpus
        offers = (
            values.Offer(values.VGPUType('nvidia-9', name), 1),
            values.Offer(values.VGPUType('nvidia-10', 'NVIDIA A40-48'), 1),
        )
        vfs = tuple(dataclasses.replace(vf, offers=offers) for vf in empty.vfs)
        return values.Host((dataclasses.replace(empty, vfs=vfs),))

    def test_it_is_told_with_the_cure_that_the_reader_knows(self) -> None:
        for name, most in (
            ('NVIDIA A100-1-5C', 7),
            ('NVIDIA A40-12', 4),
            ('Something', 16),
        ):
            host = self.host(name, vendor_vfio=False)
            ours = generate(host, OURS, 'nvidia-9')
            self.assertIn('max_instances', str(ours.problems))
            self.assertEqual((), ours.warnings)
            novas = generate(host, NOVAS, 'nvidia-9')
            pci = generate(self.host(name, vendor_vfio=True), PCI, 'nvidia-9')
            for fragment in (novas, pci):
                self.assertNotIn('max_instances', str(fragment.problems))
                self.assertIn(
                    f'{most} functions are listed', fragment.warnings[-1]
                )

    def test_nothing_is_told_where_it_is_known(self) -> None:
        for vendor_vfio, reader in ((False, NOVAS), (True, PCI)):
            host = with_vgpus(boards.A40, vendor_vfio=vendor_vfio)
            self.assertNotIn(
                'nothing tells', str(generate(host, reader, 'A40-8Q').warnings)
            )


class TestForPCI(testtools.TestCase):
    def objects(
        self, fragment: values.Fragment, option: str
    ) -> list[dict[str, typing.Any]]:
        """The values of an option; each is a JSON object over some lines."""
        return [
            json.loads(found)
            for found in re.findall(
                rf'^{option} = (.*(?:\n +.*)*)$',
                '\n'.join(fragment.lines),
                re.MULTILINE,
            )
        ]

    def test_every_function_goes_by_its_address(self) -> None:
        host = with_vgpus(boards.L40S, vendor_vfio=True)
        specs = self.objects(generate(host, PCI, 'L40S-24Q'), 'device_spec')
        self.assertEqual(
            ['0000:41:00.4', '0000:41:00.5'],
            [spec['address'] for spec in specs],
        )
        for spec in specs:
            self.assertEqual(
                {'address', 'managed', 'resource_class', 'traits'}, set(spec)
            )
            self.assertEqual('no', spec['managed'])
            self.assertEqual('CUSTOM_VGPU_L40S_24Q', spec['resource_class'])
            self.assertIn(
                'CUSTOM_VGPU_TYPE_L40S_24Q', spec['traits'].split(',')
            )

    def test_one_alias_for_each_type(self) -> None:
        host = hosts.make_host(
            *(
                hosts.gpu(address, boards.L40S, vfs=4, vendor_vfio=True)
                for address in ('41:00.0', '42:00.0')
            )
        )
        fragment = generate(host, PCI, 'L40S-24Q')
        self.assertEqual(4, len(self.objects(fragment, 'device_spec')))
        self.assertEqual(
            [
                {
                    'name': 'L40S-24Q',
                    'device_type': 'type-VF',
                    'resource_class': 'CUSTOM_VGPU_L40S_24Q',
                }
            ],
            self.objects(fragment, 'alias'),
        )

    def test_what_nova_needs_beside_them(self) -> None:
        host = with_vgpus(boards.L40S, vendor_vfio=True)
        lines = generate(host, PCI, 'L40S-24Q').lines
        for section, option in (
            ('[pci]', 'report_in_placement = true'),
            ('[filter_scheduler]', 'pci_in_placement = true'),
        ):
            above = lines[: lines.index(option)]
            sections = [line for line in above if line.startswith('[')]
            self.assertEqual(section, sections[-1])

    def test_functions_of_the_type_go_first_and_of_others_never(self) -> None:
        host = with_vgpus(
            boards.L40S,
            simulation.Created('nvidia-1154', vf=9),  # 16Q
            simulation.Created('nvidia-1164', vf=0),  # 16A
            vendor_vfio=True,
        )
        fragment = generate(host, PCI, 'L40S-16Q')
        self.assertEqual(
            ['0000:41:00.5', '0000:41:01.5'],
            [s['address'] for s in self.objects(fragment, 'device_spec')],
        )

    def test_functions_that_are_not_of_the_type_yet_are_told(self) -> None:
        one = simulation.Created('nvidia-1155', vf=0)
        fragment = generate(
            with_vgpus(boards.L40S, one, vendor_vfio=True), PCI, 'L40S-24Q'
        )
        (warning,) = fragment.warnings
        self.assertIn('GPU 0000:41:00.0: 1 of 2 functions', warning)
        self.assertIn('1155 in', ' '.join(fragment.lines))
        both = with_vgpus(
            boards.L40S,
            one,
            simulation.Created('nvidia-1155', vf=3),
            vendor_vfio=True,
        )
        # Full as it is, the GPU does not name its types.
        both = dataclasses.replace(
            both, type_names=(('nvidia-1155', 'NVIDIA L40S-24Q'),)
        )
        fragment = generate(both, PCI, 'L40S-24Q')
        self.assertEqual((), fragment.warnings)
        self.assertEqual(
            ['0000:41:00.4', '0000:41:00.7'],
            [s['address'] for s in self.objects(fragment, 'device_spec')],
        )

    def test_gpus_that_are_no_pci_devices_to_nova_are_refused(self) -> None:
        for host, wish, word in (
            (
                with_vgpus(boards.A40, vendor_vfio=False),
                'A40-8Q',
                'has mediated devices',
            ),
            (
                hosts.make_host(hosts.gpu('41:00.0', boards.L40S)),
                'L40S-8Q',
                'VFs are not enabled',
            ),
            (full_of_another_type(), 'L40S-48Q', 'has no room for'),
        ):
            error = self.assertRaises(
                exception.RequestRefusedError, generate, host, PCI, wish
            )
            self.assertIn('GPU 0000:41:00.0', str(error))
            self.assertIn(word, str(error))
