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

"""What is in the way of passing a whole GPU through, and the roles."""

import dataclasses

import testtools

from nova_vgpu import values
from nova_vgpu.plan import mapper
from nova_vgpu.plan import roles
from nova_vgpu.plan import whole_gpu_checks
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts

T4 = hosts.gpu('84:00.0', boards.T4)
CLEAN = values.GPUIsolation(12)


def parse(address: str) -> values.PciAddress:
    return values.PciAddress.parse(address)


def make_plan(
    declaration: values.Declaration, *cards: simulation.GPU
) -> values.Plan:
    return mapper.make_plan(
        values.Configuration(declaration).plan_input(
            hosts.make_host(*cards), values.ModesRead()
        )
    )


class TestObstacles(testtools.TestCase):
    def find(
        self,
        isolation: values.GPUIsolation = CLEAN,
        card: simulation.GPU = T4,
        declaration: values.Declaration | None = None,
        has_iommu: bool = True,
    ) -> dict[str, str]:
        """The findings and cures by code."""
        gpu = hosts.make_gpu(card)
        assert gpu.address is not None
        found = whole_gpu_checks.find_obstacles(
            gpu,
            values.IsolationRead(((gpu.address, isolation),), has_iommu),
            make_plan(declaration or values.Declaration(), card),
        )
        return {of.code: f'{of.finding}. {of.cure}' for of in found}

    def test_a_gpu_alone_in_its_group_can_be_passed_through(self) -> None:
        self.assertEqual({}, self.find())

    def test_the_iommu_is_off_or_not_for_this_gpu(self) -> None:
        without = values.GPUIsolation()
        off = self.find(without, has_iommu=False)
        self.assertIn('intel_iommu=on', off['no-iommu'])
        self.assertEqual({'no-iommu-group'}, set(self.find(without)))

    def test_what_else_is_in_the_group(self) -> None:
        nic = values.PciFunction(parse('85:00.0'), 0x020000, 'i40e')
        second = values.PciFunction(parse('84:00.1'), 0x030200, None)
        bridge = values.PciFunction(parse('80:01.0'), 0x060400, 'pcieport')
        for others, words in (
            ((bridge,), ()),
            ((nic,), ('group 12', '0000:85:00.0 (network, driver i40e)')),
            # A driver that is not there does not isolate either.
            (
                (dataclasses.replace(nic, driver=None, pci_class=0xFF0000),),
                ('0000:85:00.0 (class ff0000, no driver)',),
            ),
            # Another GPU cannot go to another server.
            ((second,), ('0000:84:00.1 (display, no driver)',)),
        ):
            found = self.find(values.GPUIsolation(12, others))
            self.assertEqual(bool(words), 'group-shared' in found)
            self.assertEqual(bool(words), bool(found))
            for word in words:
                self.assertIn(word, found['group-shared'])

    def test_functions_of_the_same_card_need_vfio_or_no_driver(self) -> None:
        audio = values.PciFunction(parse('84:00.1'), 0x040300, 'snd_hda_intel')
        usb = values.PciFunction(parse('84:00.2'), 0x0C0330, 'xhci_hcd')
        found = self.find(values.GPUIsolation(12, (audio, usb)))
        self.assertEqual({'group-bound'}, set(found))
        for word in (
            '0000:84:00.1 (audio, driver snd_hda_intel)',
            'driverctl set-override 0000:84:00.1 vfio-pci',
            'driverctl set-override 0000:84:00.2 vfio-pci',
        ):
            self.assertIn(word, found['group-bound'])
        ready = (
            dataclasses.replace(audio, driver='vfio-pci'),
            dataclasses.replace(usb, driver=None),
        )
        self.assertEqual({}, self.find(values.GPUIsolation(12, ready)))

    def test_a_display_stays_with_the_host(self) -> None:
        found = self.find(values.GPUIsolation(12, is_display=True))
        self.assertIn('firmware', found['display'])

    def test_what_uses_the_gpu(self) -> None:
        used = values.GPUIsolation(12, processes=(7, 9))
        self.assertIn('7, 9', self.find(used)['in-use'])
        vgpus = self.find(card=hosts.gpu('84:00.0', boards.T4, 'nvidia-231'))
        self.assertIn('device list --gpu 0000:84:00.0', vgpus['has-vgpus'])
        vfs = self.find(card=hosts.gpu('41:00.0', boards.A40, vfs=4))
        self.assertEqual({'vfs-on'}, set(vfs))
        self.assertIn('sriov disable 0000:41:00.0', vfs['vfs-on'])
        off = hosts.gpu('41:00.0', boards.A40)
        self.assertEqual({}, self.find(card=off))

    def test_a_gpu_that_serves_vgpus(self) -> None:
        listed = values.DeclaredType('T4-2Q', 'vgpu_T4-2Q', ('84:00.0',))
        for declared, word in (
            (listed, '[vgpu_T4-2Q]device_addresses'),
            (
                dataclasses.replace(listed, device_addresses=()),
                'unlisted_gpus = ignore',
            ),
        ):
            found = self.find(declaration=values.Declaration((declared,)))
            self.assertIn(word, found['declared-for-vgpus'])
        aside = values.Declaration(
            (dataclasses.replace(listed, device_addresses=()),),
            unlisted=values.UnlistedGPUs.IGNORE,
        )
        self.assertEqual({}, self.find(declaration=aside))

    def test_what_is_unknown_is_refused(self) -> None:
        found = self.find(values.GPUIsolation(unknown_because='no sysfs'))
        self.assertEqual({'isolation-unknown'}, set(found))
        self.assertIn('no sysfs', found['isolation-unknown'])

    def test_a_driver_of_the_host_is_warned_of(self) -> None:
        for driver, word in (
            ('default', 'bound to nvidia'),
            ('nouveau', 'bound to nouveau'),
            ('vfio-pci', None),
            (None, None),
        ):
            gpu = hosts.make_gpu(
                hosts.gpu('84:00.0', boards.T4, driver=driver)
            )
            found = whole_gpu_checks.find_driver_warning(gpu)
            if word is None:
                self.assertIsNone(found, str(driver))
            else:
                self.assertIn(word, found or '')


class TestRoles(testtools.TestCase):
    def find(
        self,
        card: simulation.GPU,
        declaration: values.Declaration,
        display: bool = False,
    ) -> str:
        return roles.find_role(
            hosts.make_gpu(card),
            make_plan(declaration, card),
            declaration,
            values.GPUIsolation(12, is_display=display),
        ).value

    def declare(
        self, *lines: values.PciDeviceSpec, serves: str = ''
    ) -> values.Declaration:
        types = (
            (values.DeclaredType('T4-2Q', 'vgpu_T4-2Q', (serves,)),)
            if serves
            else ()
        )
        return values.Declaration(types, pci_devices=lines)

    def test_what_is_declared_counts_first(self) -> None:
        by_ids = values.PciDeviceSpec('[pci]device_spec', '', 0x10DE, 0x1EB8)
        for case, declaration, display, role in (
            ('vGPUs', self.declare(serves='84:00.0'), True, 'vGPU'),
            ('[pci]', self.declare(by_ids), True, 'passthrough'),
            ('display', self.declare(), True, 'display'),
            ('nothing', self.declare(), False, 'unused'),
        ):
            self.assertEqual(role, self.find(T4, declaration, display), case)

    def test_a_gpu_on_vfio_is_for_passthrough(self) -> None:
        card = hosts.gpu('84:00.0', boards.T4, driver='vfio-pci')
        self.assertEqual('passthrough', self.find(card, self.declare()))

    def test_functions_in_device_spec_are_vgpus_if_they_have_types(
        self,
    ) -> None:
        vf = values.PciDeviceSpec(
            '[pci]device_spec', '', address=('', 'c8$', '00$', '4$')
        )
        mdev = hosts.gpu('c8:00.0', boards.L40S, vfs=4, vendor_vfio=True)
        off = hosts.gpu('c8:00.0', boards.L40S)
        for card in (mdev, off):
            self.assertEqual('vGPU', self.find(card, self.declare(vf)))
        share = dataclasses.replace(vf, address=('', '00$', '02$', '1$'))
        intel = hosts.gpu('00:02.0', boards.UHD_770, vfs=2)
        self.assertEqual('passthrough', self.find(intel, self.declare(share)))
        # By ids, Nova tracks the GPU and its functions.
        by_ids = values.PciDeviceSpec('[pci]device_spec', '', 0x10DE, 0x26B9)
        self.assertEqual('vGPU', self.find(mdev, self.declare(by_ids)))
        self.assertEqual('passthrough', self.find(off, self.declare(by_ids)))
