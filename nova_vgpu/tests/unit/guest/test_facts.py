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

"""The facts of guests and hosts, from trees as they have them."""

import dataclasses
import pathlib
import typing

import fixtures
import testtools

from nova_vgpu.guest import facts
from nova_vgpu.sandbox import guest_pci
from nova_vgpu.sandbox import guests

T4_VGPU = guests.MACHINES['t4-vgpu']
VGPU_PLACE = 0xD0


class Expected(typing.NamedTuple):
    """What is known of a machine.

    ``gpus`` has the kind, the type, whether MIG backs it, the version of the
    host's driver and the needed driver; ``drivers`` whether it is installed
    and of the right kind.
    """

    has_gpu: bool | None
    is_virtual_gpu: bool | None
    is_guest: bool | None
    licence: str
    gpus: tuple[tuple[object, ...], ...]
    drivers: dict[str | None, tuple[bool | None, bool | None]]
    problems: int = 0


HOST = '550.144.02'
WHOLE = ('physical', None, None, None, 'datacenter')
SLICE = ('vgpu', None, None, HOST, 'vgpu-guest')
EXPECTED = {
    't4-host': Expected(
        True,
        False,
        False,
        'not-needed',
        (WHOLE,),
        {'datacenter': (True, True)},
    ),
    't4-vgpu': Expected(
        *(True, True, True, 'licensed'),
        (('vgpu', 'T4-2Q', False, HOST, 'vgpu-guest'),),
        {'vgpu-guest': (True, True)},
    ),
    't4-vgpu-without-driver': Expected(
        True, True, True, 'unknown', (SLICE,), {'vgpu-guest': (False, None)}
    ),
    't4-vgpu-as-a-user': Expected(
        *(True, None, True, 'unknown'),
        (('unknown', None, None, None, None),),
        {None: (False, None)},
        1,
    ),
    'a100-passthrough': Expected(
        True, False, True, 'not-needed', (WHOLE,), {'datacenter': (True, None)}
    ),
    'a100-mig-vgpu': Expected(
        *(True, True, True, 'unlicensed'),
        (('vgpu', 'A100-1-5C', True, HOST, 'vgpu-guest'),),
        {'vgpu-guest': (True, True)},
    ),
    'oem-board': Expected(
        True,
        False,
        True,
        'not-needed',
        (WHOLE,),
        {'datacenter': (False, None)},
    ),
    'vgpu-host': Expected(
        *(True, False, False, 'not-needed'),
        (
            ('physical', None, None, None, 'vgpu-host'),
            ('vf', None, None, None, 'vgpu-host'),
            ('vf', None, None, None, 'vgpu-host'),
        ),
        {'vgpu-host': (True, True)},
    ),
    'intel-vf': Expected(
        *(True, False, True, 'not-needed'),
        (('vf', None, None, None, 'intel'),),
        {'intel': (True, True)},
    ),
    'intel-vf-as-a-user': Expected(
        *(True, False, True, 'not-needed'),
        (('unknown', None, None, None, 'intel'),),
        {'intel': (True, True)},
        1,
    ),
    'amd-vf': Expected(
        *(True, False, True, 'not-needed'),
        (('vf', None, None, None, 'amd'),),
        {'amd': (True, True)},
    ),
    'no-gpu': Expected(False, False, True, 'not-needed', (), {}),
    'two-kinds': Expected(
        *(True, True, True, 'unknown'),
        # The driver for vGPUs serves whole GPUs, too.
        (SLICE, ('physical', None, None, None, 'vgpu-guest')),
        {'vgpu-guest': (False, None)},
    ),
    'two-vendors': Expected(
        *(True, True, True, 'unknown'),
        (SLICE, ('vf', None, None, None, 'amd')),
        {'vgpu-guest': (False, None), 'amd': (True, True)},
        1,  # nouveau
    ),
    'gpudirect-clique': Expected(
        True, False, True, 'not-needed', (WHOLE,), {'datacenter': (True, True)}
    ),
    'vf-without-vgpu': Expected(
        *(True, None, True, 'unknown'),
        (('unknown', None, None, None, None),),
        {None: (False, None)},
        1,
    ),
    'gvt-g': Expected(
        *(True, False, True, 'not-needed'),
        (('unknown', None, None, None, 'intel'),),
        {'intel': (True, True)},
        1,
    ),
}


class FactsTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.environment: dict[str, str] = {}
        self.use_new_root()

    def use_new_root(self) -> None:
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.tree = facts.Tree(str(self.root))

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, machine: guests.Machine, **given: bool) -> facts.Facts:
        """The facts of a machine, which is written where no other is."""
        guests.write_machine(machine, self.root)
        return self.collect(machine.nvidia_smi or '', **given)

    def collect(self, smi: str = '', **given: bool) -> facts.Facts:
        return facts.collect(
            self.tree, lambda: (smi, ''), self.environment, given
        )

    def read_one(self, device: guests.Device, **more: typing.Any) -> facts.GPU:
        (gpu,) = self.read(guests.Machine((device,), **more)).gpus
        return gpu


class TestMachines(FactsTestCase):
    def test_each_is_what_it_is(self) -> None:
        for name, expected in EXPECTED.items():
            self.use_new_root()
            found = self.read(guests.MACHINES[name])
            self.assertEqual(expected, _summarise(found), f'{name}: {found}')
            needed = tuple(kind or 'unknown' for kind in expected.drivers)
            self.assertEqual(needed, found.drivers_needed, name)

    def test_each_machine_has_an_expectation(self) -> None:
        self.assertEqual(set(guests.MACHINES), set(EXPECTED))

    def test_everything_of_a_vgpu(self) -> None:
        (gpu,) = self.read(T4_VGPU).gpus
        self.assertEqual(
            facts.GPU(
                *('0000:06:00.0', 'nvidia', '10de', '1eb8', '10de', '130d'),
                '0300',
                'vgpu',
                'it has the PCI capability of a vGPU',
                'GRID T4-2Q',
                'T4-2Q',
                False,
                '550.144.02',
                'r550_00',
                None,
                None,
                'nvidia',
                'vgpu-guest',
                facts.Licence(
                    'licensed',
                    'NVIDIA RTX Virtual Workstation',
                    'Licensed (Expiry: 2027-3-19 7:29:4 GMT)',
                    '2027-3-19 7:29:4 GMT',
                ),
            ),
            gpu,
        )

    def test_everything_of_a_vf(self) -> None:
        _, vf, _ = self.read(guests.MACHINES['vgpu-host']).gpus
        self.assertEqual(
            ('0000:41:00.0', '10de', '2235', '0000', 'nvidia'),
            (
                vf.physical_function,
                vf.vendor_id,  # not those of its header, which has none
                vf.device_id,
                vf.subsystem_device_id,
                vf.kernel_driver,
            ),
        )


def _summarise(found: facts.Facts) -> Expected:
    return Expected(
        found.has_gpu,
        found.is_virtual_gpu,
        found.is_guest,
        found.licence,
        tuple(
            (
                gpu.kind,
                gpu.vgpu_type,
                gpu.is_mig_backed,
                gpu.host_driver_version,
                gpu.driver_needed,
            )
            for gpu in found.gpus
        ),
        {
            driver.kind: (driver.is_installed, driver.is_right_kind)
            for driver in found.drivers
        },
        len(found.problems),
    )


class TestVirtualOrNot(FactsTestCase):
    """What a GPU of NVIDIA is, is in its capability and nowhere else."""

    def setUp(self) -> None:
        super().setUp()
        (_, self.vgpu) = T4_VGPU.devices
        (self.whole,) = guests.MACHINES['gpudirect-clique'].devices

    def test_the_subsystem_id_does_not_matter(self) -> None:
        for number, subsystem in enumerate(
            ((0x10DE, 0x12A2), (0x10DE, 0xFFFE), (0x1028, 0x130D))
        ):
            for device, kind in (
                (self.vgpu, 'vgpu'),
                (self.whole, 'physical'),
            ):
                self.use_new_root()
                changed = dataclasses.replace(device, subsystem=subsystem)
                self.assertEqual(
                    kind, self.read_one(changed).kind, str(number)
                )

    def test_what_can_have_virtual_functions_is_physical(self) -> None:
        """Also for those who cannot read its capabilities."""
        (device,) = guests.MACHINES['t4-host'].devices
        hidden = dataclasses.replace(device, readable=guests.HEADER_BYTES)
        self.assertEqual('physical', self.read_one(hidden).kind)

    def test_a_gpu_with_gvt_is_a_whole_one_on_a_host(self) -> None:
        machine = guests.MACHINES['gvt-g']
        host = dataclasses.replace(machine, is_guest=False)
        self.assertEqual('physical', self.read(host).gpus[0].kind)

    def test_a_capability_among_others(self) -> None:
        both = {
            0xC8: guest_pci.make_vendor_capability(b'P2P\x00\x08'),
            **guest_pci.make_vgpu_capabilities('570.1', 'r570_00'),
        }
        found = self.read_one(
            dataclasses.replace(self.vgpu, capabilities=both)
        )
        self.assertEqual(
            ('vgpu', '570.1'), (found.kind, found.host_driver_version)
        )

    def test_the_word_of_the_driver_where_nothing_can_be_read(self) -> None:
        device = dataclasses.replace(self.vgpu, readable=guests.HEADER_BYTES)
        for mode, kind in (
            ('VGPU', 'vgpu'),
            ('Pass-Through', 'physical'),
            ('None', 'physical'),
            ('N/A', 'unknown'),
        ):
            view = facts.DriverView(mode=mode)
            function = facts.Function(
                *('0000:06:00.0', '10de', '1eb8', '10de', '130d', '0300'),
                config=device.config,
                kernel_driver=None,
                physical_function=None,
                total_vfs=None,
                vfs=None,
                has_vgpu_types=False,
                xe_mode=None,
            )
            self.assertEqual(kind, facts.classify(function, view, True)[0])

    def test_the_capability_counts_more_than_the_word_of_the_driver(
        self,
    ) -> None:
        smi = guests.make_nvidia_smi('0000:06:00.0', 'Tesla T4', 'None')
        found = self.read_one(
            self.vgpu, nvidia_smi=smi, modules={'nvidia': '550.1'}
        )
        self.assertEqual('vgpu', found.kind)


class TestConfigurationSpaces(testtools.TestCase):
    """Whatever is in the 256 bytes."""

    def setUp(self) -> None:
        super().setUp()
        self.data = bytearray(T4_VGPU.devices[1].config)

    def read(self) -> tuple[facts.HostDriver | None, str]:
        found = facts.find_vendor_capabilities(bytes(self.data))
        hosts = [facts.parse_vgpu_capability(p) for p in found.payloads]
        return next((h for h in hosts if h is not None), None), found.gap

    def test_the_layout_of_the_public_capture(self) -> None:
        self.assertEqual(VGPU_PLACE, self.data[0x34])
        self.assertEqual(
            b'\x09\x68\x1bVF\x00\x16550.144.02r550_00\0\0\0',
            bytes(self.data[VGPU_PLACE : VGPU_PLACE + 0x1B]),
        )
        self.assertEqual(
            (facts.HostDriver('550.144.02', 'r550_00'), ''), self.read()
        )

    def test_every_shorter_one_says_that_it_is_cut_off(self) -> None:
        whole = bytes(self.data)
        for length in range(VGPU_PLACE + 0x1B):
            self.data = bytearray(whole[:length])
            host, gap = self.read()
            self.assertNotEqual('', gap, length)
            # Nothing is half of what it was.
            if host is not None:
                self.assertIn(host.version, (None, '550.144.02'), str(length))
                self.assertIsNone(host.branch, str(length))
        self.data = bytearray(whole[: VGPU_PLACE + 0x1B])
        self.assertEqual('', self.read()[1])

    def test_without_a_list(self) -> None:
        self.data[0x06] = 0
        self.assertEqual((None, ''), self.read())
        self.data[0x06], self.data[0x34] = 0x10, 0
        self.assertEqual((None, ''), self.read())

    def test_damages(self) -> None:
        for case, changes in (
            ('a loop', {0x34: 0x68, 0x69: 0x68}),
            ('a loop of two', {0x34: 0x68, 0x69: 0x70, 0x71: 0x68}),
            ('a pointer into the header', {0x34: 0x20}),
            ('no capability', {0x68: 0xFF, 0x34: 0x68}),
            ('no length', {VGPU_PLACE + 2: 0}),
            ('a length behind the end', {VGPU_PLACE + 2: 0xFF}),
            ('a bridge', {0x0E: 0x01}),
        ):
            self.data = bytearray(T4_VGPU.devices[1].config)
            for place, byte in changes.items():
                self.data[place] = byte
            self.assertNotEqual('', self.read()[1], case)

    def test_several_functions_in_one_device(self) -> None:
        self.data[0x0E] = 0x80
        self.assertEqual('', self.read()[1])

    def test_the_low_bits_of_a_pointer_are_reserved(self) -> None:
        """A reader has to mask them: PCI specification 3.0, section 6.7."""
        self.data[VGPU_PLACE + 1] = 0
        for first, second in ((0x68, VGPU_PLACE), (VGPU_PLACE, 0)):
            for bits in (1, 2, 3):
                self.data[0x34] = first | bits
                self.data[0x69] = second | bits
                self.assertEqual(
                    (facts.HostDriver('550.144.02', 'r550_00'), ''),
                    self.read(),
                )

    def test_a_device_that_does_not_answer(self) -> None:
        self.data = bytearray(b'\xff' * 256)
        self.assertEqual((None, 'the device does not answer'), self.read())

    def test_what_it_found_before_the_damage_counts(self) -> None:
        self.data[VGPU_PLACE + 1] = VGPU_PLACE
        host, gap = self.read()
        self.assertEqual(facts.HostDriver('550.144.02', 'r550_00'), host)
        self.assertNotEqual('', gap)


class TestRecords(testtools.TestCase):
    def test_what_is_in_the_capability(self) -> None:
        version = b'460.16'.ljust(10, b'\0') + b'r460_00'.ljust(10, b'\0')
        for case, payload, expected in (
            ('a vGPU', b'VF\x00\x16' + version, ('460.16', 'r460_00')),
            (
                'another record first',
                b'VF\x01\x05abc\x00\x16' + version,
                ('460.16', 'r460_00'),
            ),
            ('no record', b'VF', (None, None)),
            ('half a version', b'VF\x00\x16460.1', (None, None)),
            (
                'half a branch',
                b'VF\x00\x16' + version[:14],
                ('460.16', None),
            ),
            ('a length of zero', b'VF\x01\x00' + version, (None, None)),
            (
                'a length that is too short',
                b'VF\x05\x01\x02\x00\x16' + version,
                (None, None),
            ),
            ('an empty record', b'VF\x00\x00' + version, (None, None)),
            ('only others', b'VF\x01\x05abc\x02\x03a', (None, None)),
            (
                'an escape sequence',
                b'VF\x00\x16\x1b[2J460.1\0r460\x1b[0m\0\0',
                (None, None),
            ),
            ('not ASCII', b'VF\x00\x16' + b'\xe9' * 20, (None, None)),
        ):
            host = facts.parse_vgpu_capability(payload)
            self.assertEqual(facts.HostDriver(*expected), host, case)

    def test_what_is_not_a_vgpu(self) -> None:
        for payload in (b'', b'V', b'FV', b'P2P\x00\x08', b'\x01VF', b'vf'):
            self.assertIsNone(
                facts.parse_vgpu_capability(payload), str(payload)
            )
