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

"""Every problem in the words that an operator reads."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.plan import address_matching
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

FATAL, ERROR = values.Severity.FATAL, values.Severity.ERROR

T4 = hosts.gpu('84:00.0', boards.T4)
A40 = hosts.gpu('41:00.0', boards.A40, vfs=32)
A40_OFF = hosts.gpu('c1:00.0', boards.A40)
NETWORK_CARD = hosts.gpu('e1:00.0', boards.NETWORK_CARD)
AUDIO = hosts.gpu('84:00.1', boards.NETWORK_CARD)
HOST = hosts.make_host(T4, A40_OFF, AUDIO, NETWORK_CARD)
GPUS = 'The GPUs of this host: 0000:84:00.0, 0000:c1:00.0.'


def listed(
    *addresses: str, name: str = 'T4-2Q', max_instances: int | None = None
) -> values.DeclaredType:
    return values.DeclaredType(
        name, f'vgpu_{name}', addresses, max_instances=max_instances
    )


class ProblemTestCase(testtools.TestCase):
    def find(
        self,
        code: str,
        host: values.Host,
        *types: values.DeclaredType,
        unlisted: values.UnlistedGPUs = values.UnlistedGPUs.IGNORE,
        sections: tuple[str, ...] = (),
    ) -> values.Problem:
        """The one problem of this code."""
        declaration = values.Declaration(types, unlisted, sections)
        plan = plans.make_plan(declaration, host)
        found = [p for p in plan.problems if p.code == code]
        self.assertEqual(1, len(found), f'{code} in {plan.problems}')
        return found[0]


class TestAddresses(ProblemTestCase):
    def test_addresses_that_stop_the_service(self) -> None:
        for case, code, written, message, cure in (
            (
                'digits swapped',
                'not-on-host',
                '48:00.0',
                'this host has no device 48:00.0.',
                f'Did you mean 0000:84:00.0? {GPUS}',
            ),
            (
                'another domain',
                'not-on-host',
                '00000001:C1:00.0',
                'this host has no device 00000001:C1:00.0.',
                f'Did you mean 0000:c1:00.0? {GPUS}',
            ),
            (
                'nothing near',
                'not-on-host',
                'fe:1f.7',
                'this host has no device fe:1f.7.',
                GPUS,
            ),
            (
                'no function',
                'malformed-address',
                '0000:84:00',
                "'0000:84:00' is not a PCI address.",
                f'Did you mean 0000:84:00.0? {GPUS}',
            ),
            (
                'capitals and no function',
                'malformed-address',
                '0000:C1:00',
                "'0000:C1:00' is not a PCI address.",
                f'Did you mean 0000:c1:00.0? {GPUS}',
            ),
            (
                "libvirt's name",
                'malformed-address',
                'pci_0000_84_00_0',
                "'pci_0000_84_00_0' is not a PCI address.",
                'Write it as 0000:84:00.0.',
            ),
            (
                'a word',
                'malformed-address',
                'first',
                "'first' is not a PCI address.",
                GPUS,
            ),
            (
                'the sound of a GPU',
                'not-a-gpu',
                '84:00.1',
                '84:00.1 is not a GPU.',
                f'Did you mean 0000:84:00.0? {GPUS}',
            ),
            (
                'a network card',
                'not-a-gpu',
                'E1:00.0',
                'E1:00.0 is not a GPU.',
                f'Did you mean 0000:c1:00.0? {GPUS}',
            ),
        ):
            problem = self.find(code, HOST, listed(written))
            option = '[vgpu_T4-2Q]device_addresses'
            self.assertEqual(FATAL, problem.severity, case)
            self.assertEqual(option, problem.subject, case)
            self.assertEqual(f'{option}: {message}', problem.message, case)
            self.assertEqual(cure, problem.cure, case)

    def test_what_was_here_before_is_no_mistake(self) -> None:
        """A GPU failed; its place may be another device's by now."""
        seen = frozenset({'0000:85:00.0', '0000:e1:00.0', '0000:84:00.0'})
        types = (listed('85:00.0', 'E1:00.0', '86:00.0', '84:00.0', 'x'),)
        plan = plans.make_plan(values.Declaration(types), HOST, seen=seen)
        option = '[vgpu_T4-2Q]device_addresses'
        self.assertEqual(
            [
                f'{option}: 85:00.0 was a GPU of this host, and is missing '
                'now.',
                f'{option}: E1:00.0 was a GPU of this host, and another '
                'device is at this address now.',
            ],
            [p.message for p in plan.problems if p.code == 'gpu-gone'],
        )
        self.assertEqual(
            ['not-on-host', 'malformed-address'],
            [p.code for p in plan.problems_of(FATAL)],
        )
        # What is declared no more is forgotten.
        self.assertEqual(
            frozenset({'0000:85:00.0', '0000:84:00.0'}),
            address_matching.list_seen(
                seen, (listed('85:00.0', '86:00.0', '84:00.0', 'x'),), HOST
            ),
        )

    def test_a_host_without_gpus_says_so(self) -> None:
        problem = self.find('not-on-host', values.Host(), listed('84:00.0'))
        self.assertEqual('This host has no GPUs.', problem.cure)

    def test_the_section_is_named_as_it_was_written(self) -> None:
        declared = values.DeclaredType('T4-2Q', 'mdev_T4-2Q', ('48:00.0',))
        problem = self.find('not-on-host', HOST, declared)
        self.assertEqual('[mdev_T4-2Q]device_addresses', problem.subject)

    def test_a_function_that_is_off(self) -> None:
        problem = self.find(
            'vf-not-enabled', HOST, listed('C1:00.4', name='A40-8Q')
        )
        self.assertEqual(ERROR, problem.severity)
        self.assertEqual('0000:c1:00.0', problem.subject)
        self.assertEqual(
            '[vgpu_A40-8Q]device_addresses: C1:00.4 is a virtual function of '
            "GPU 0000:c1:00.0 that is not enabled. Enable the GPU's virtual "
            'functions, or list the GPU itself.',
            str(problem),
        )

    def test_a_function_that_may_be_off_where_nothing_tells_for_sure(
        self,
    ) -> None:
        gpu = dataclasses.replace(
            hosts.make_gpu(hosts.gpu('41:00.0', boards.A40)),
            sriov=values.Sriov(32),  # all that libvirt alone tells
        )
        host = values.Host((gpu,))
        for case, address, code in (
            ('on its bus', '41:00.4', 'vf-not-enabled'),
            ('on the bus after it', '42:01.0', 'vf-not-enabled'),
            ('two buses on', '43:00.4', 'not-on-host'),
            ('in front of it', '40:00.4', 'not-on-host'),
            ('in another domain', '0001:41:00.4', 'not-on-host'),
        ):
            declared = listed(address, name='A40-8Q')
            self.assertIsNotNone(self.find(code, host, declared), case)

    def test_a_device_that_could_not_be_read(self) -> None:
        fault = values.ReadFault('pci_0000_85_00_0', 'a file', 'is a mess')
        host = values.Host(HOST.gpus, faults=(fault,))
        problem = self.find('listed-but-unreadable', host, listed('85:00.0'))
        self.assertEqual(ERROR, problem.severity)
        self.assertEqual(
            '[vgpu_T4-2Q]device_addresses: 85:00.0 is on this host but could '
            'not be read.',
            problem.message,
        )
        problem = self.find('unreadable', host, listed('85:00.0'))
        self.assertEqual(ERROR, problem.severity)
        self.assertEqual(
            'pci_0000_85_00_0 cannot be read in full: a file: is a mess.',
            problem.message,
        )

    def test_a_function_with_a_fault_is_still_its_gpus(self) -> None:
        fault = values.ReadFault('pci_0000_41_00_4', 'a file', 'is a mess')
        host = values.Host(hosts.make_host(A40).gpus, faults=(fault,))
        problem = self.find(
            'gpu-under-two-types',
            host,
            listed('41:00.0', name='A40-8Q'),
            listed('41:00.4', name='A40-4Q'),
        )
        self.assertEqual(FATAL, problem.severity)
