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

"""The surroundings of GPUs, read from a directory tree."""

import pathlib

import fixtures
import hypothesis
from hypothesis import strategies
import testtools

from nova_vgpu import values
from nova_vgpu.diagnose import diagnosis
from nova_vgpu.host import environment
from nova_vgpu.host import files
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts

UPSTREAM_RULE = """\
# mdevctl start-parent-mdevs, see /usr/sbin/mdevctl
ACTION=="change", ENV{MDEV_STATE}=="registered", \
TEST=="/etc/mdevctl.d/$kernel", \
RUN+="/bin/sh -c '/usr/sbin/mdevctl start-parent-mdevs %k'"
"""
PARAMETERS = """\
ResmanDebugLevel: 4294967295
RegistryDwords: "RmPVMRL=0x11"
RegistryDwordsPerDevice: "pci=0000:84:00.0;RmPVMRL=0x01"
RmMsg: ""
"""
VERSION = (
    'NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.16  '
    'Tue Feb  6 01:23:45 UTC 2024\nGCC version:  gcc version 13.2.0\n'
)

#: Everything that is looked at, as it is on a sound host.
SOUND = {
    'proc/cmdline': 'BOOT_IMAGE=/vmlinuz root=/dev/sda1 intel_iommu=on\n',
    'proc/1/comm': 'systemd\n',
    'proc/77/comm': 'nvidia-vgpu-mgr\n',
    'proc/uptime': '1 2\n',
    'proc/driver/nvidia/params': PARAMETERS,
    'proc/driver/nvidia/version': VERSION,
    'sys/class/iommu/dmar0/x': '',
    'sys/kernel/iommu_groups/0/x': '',
    'sys/kernel/iommu_groups/1/x': '',
    'sys/module/nvidia/version': '550.54.16\n',
    'usr/sbin/mdevctl': 'ELF',
    'usr/lib/udev/rules.d/60-mdevctl.rules': UPSTREAM_RULE,
    'etc/modprobe.d/nvidia.conf': (
        '# options nvidia NVreg_RegistryDwords="RmPVMRL=0x01"\n'
        'options nvidia NVreg_Foo=1 NVreg_RegistryDwords="RmPVMRL=0x11"\n'
        'options nvidia-drm modeset=1\n'
    ),
}


class SurroundingsTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def put(self, path: str, text: str | bytes) -> pathlib.Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def read(self) -> values.Environment:
        return environment.read(files.Files(str(self.root)))


class TestReading(SurroundingsTestCase):
    def test_a_sound_host(self) -> None:
        for path, text in SOUND.items():
            self.put(path, text)
        found = self.read()
        self.assertEqual((), found.faults)
        assert found.command_line is not None
        self.assertEqual(
            f'{self.root}/proc/cmdline', found.command_line.source
        )
        self.assertIn('intel_iommu=on', found.command_line.value)
        self.assertEqual((1, 2), (found.iommus, found.iommu_groups))
        self.assertEqual((77,), found.vgpu_managers)
        self.assertEqual((f'{self.root}/usr/sbin/mdevctl',), found.mdevctl)
        (call,) = found.udev_calls
        self.assertEqual('/usr/sbin/mdevctl', call.program)
        self.assertTrue(call.is_there)
        self.assertTrue(call.rule.endswith('60-mdevctl.rules'))
        self.assertEqual(
            values.Evidence(
                f'{self.root}/sys/module/nvidia/version', '550.54.16'
            ),
            found.driver_version,
        )
        parameters = f'{self.root}/proc/driver/nvidia/params'
        self.assertEqual(
            values.Evidence(parameters, 'RmPVMRL=0x11'), found.loaded_dwords
        )
        self.assertEqual(
            values.Evidence(parameters, 'pci=0000:84:00.0;RmPVMRL=0x01'),
            found.loaded_dwords_per_gpu,
        )
        self.assertEqual(
            (
                values.Evidence(
                    f'{self.root}/etc/modprobe.d/nvidia.conf', 'RmPVMRL=0x11'
                ),
            ),
            found.modprobe_dwords,
        )

    def test_a_host_with_nothing_of_it(self) -> None:
        self.assertEqual(
            values.Environment(iommus=0, iommu_groups=0), self.read()
        )

    def test_what_cannot_be_read_is_a_fault(self) -> None:
        self.put('proc/cmdline', b'\xff\xfe')
        self.put('sys/class/iommu', 'a file in place of a directory')
        found = self.read()
        self.assertIsNone(found.command_line)
        self.assertIsNone(found.iommus)
        self.assertEqual(
            [f'{self.root}/proc/cmdline', f'{self.root}/sys/class/iommu'],
            [fault.source for fault in found.faults],
        )


class TestDriver(SurroundingsTestCase):
    def test_the_version_in_proc_will_do(self) -> None:
        self.put('proc/driver/nvidia/version', VERSION)
        self.assertEqual(
            values.Evidence(
                f'{self.root}/proc/driver/nvidia/version', '550.54.16'
            ),
            self.read().driver_version,
        )

    def test_a_version_that_is_none(self) -> None:
        self.put('sys/module/nvidia/version', 'unknown')
        self.assertIsNone(self.read().driver_version)


class TestManager(SurroundingsTestCase):
    def test_a_manager_that_does_not_run(self) -> None:
        self.put('proc/1/comm', 'systemd\n')
        self.put('proc/2/comm', 'nvidia-vgpud\n')
        self.put('proc/self/comm', 'nvidia-vgpu-mgr\n')
        self.assertEqual((), self.read().vgpu_managers)

    def test_processes_that_are_hidden_prove_nothing(self) -> None:
        self.put('proc/4711/comm', 'python3\n')
        self.assertIsNone(self.read().vgpu_managers)

    def test_a_manager_that_is_seen_is_there_all_the_same(self) -> None:
        self.put('proc/4711/comm', 'nvidia-vgpu-mgr\n')
        self.assertEqual((4711,), self.read().vgpu_managers)


class TestMdevctl(SurroundingsTestCase):
    def test_debian_13_has_it_where_its_rule_does_not_look(self) -> None:
        self.put('usr/bin/mdevctl', 'ELF')
        self.put('usr/sbin/other', 'ELF')
        self.put('usr/lib/udev/rules.d/60-mdevctl.rules', UPSTREAM_RULE)
        # A link, as on every host of today.
        (self.root / 'bin').symlink_to('usr/bin')
        (self.root / 'lib').symlink_to('usr/lib')
        found = self.read()
        self.assertEqual((f'{self.root}/usr/bin/mdevctl',), found.mdevctl)
        (call,) = found.udev_calls
        self.assertFalse(call.is_there)

    def test_one_directory_for_all_programs(self) -> None:
        self.put('usr/bin/mdevctl', 'ELF')
        (self.root / 'usr/sbin').symlink_to('bin')
        self.put('usr/lib/udev/rules.d/60-mdevctl.rules', UPSTREAM_RULE)
        self.assertTrue(self.read().udev_calls[0].is_there)

    def test_a_host_with_directories_of_old(self) -> None:
        self.put('sbin/mdevctl', 'ELF')
        self.put('lib/udev/rules.d/60-mdevctl.rules', 'RUN+="/sbin/mdevctl"')
        found = self.read()
        self.assertEqual((f'{self.root}/sbin/mdevctl',), found.mdevctl)
        self.assertTrue(found.udev_calls[0].is_there)

    def test_the_operators_rule_takes_the_place_of_the_packages(self) -> None:
        self.put('usr/bin/mdevctl', 'ELF')
        self.put('usr/lib/udev/rules.d/60-mdevctl.rules', UPSTREAM_RULE)
        self.put(
            'etc/udev/rules.d/60-mdevctl.rules',
            UPSTREAM_RULE.replace('/usr/sbin/', '/usr/bin/'),
        )
        (call,) = self.read().udev_calls
        self.assertEqual('/usr/bin/mdevctl', call.program)
        self.assertTrue(call.is_there)

    def test_a_rule_that_is_masked(self) -> None:
        self.put('usr/lib/udev/rules.d/60-mdevctl.rules', UPSTREAM_RULE)
        rules = self.root / 'etc/udev/rules.d'
        rules.mkdir(parents=True)
        (rules / '60-mdevctl.rules').symlink_to('/dev/null')
        found = self.read()
        self.assertEqual(((), ()), (found.udev_calls, found.faults))

    def test_only_calls_count(self) -> None:
        self.put(
            'etc/udev/rules.d/1.rules',
            'TEST=="/etc/mdevctl.d/x"\n #RUN+="/usr/sbin/mdevctl"\n'
            'RUN+="/usr/sbin/mdevctl-old" RUN+="mdevctl"\n',
        )
        self.put('etc/udev/rules.d/README', 'RUN+="/usr/sbin/mdevctl"')
        self.assertEqual((), self.read().udev_calls)


class TestModprobe(SurroundingsTestCase):
    def test_the_files_are_in_order_and_each_name_counts_once(self) -> None:
        line = 'options nvidia NVreg_RegistryDwords=RmPVMRL='
        self.put('etc/modprobe.d/b.conf', f'{line}0x01')
        self.put('usr/lib/modprobe.d/b.conf', f'{line}0x11')
        self.put('usr/lib/modprobe.d/a.conf', f'  {line}0x00')
        self.put('etc/modprobe.d/c.conf.bak', f'{line}0x11')
        self.assertEqual(
            ['RmPVMRL=0x00', 'RmPVMRL=0x01'],
            [seen.value for seen in self.read().modprobe_dwords],
        )


class TestAnyContent(SurroundingsTestCase):
    """Whatever the files hold, reading and diagnosing go through."""

    def setUp(self) -> None:
        super().setUp()
        self.host = hosts.make_host(
            hosts.gpu('41:00.0', boards.A40, vfs=4),
            hosts.gpu('84:00.0', boards.T4),
            hosts.gpu('c1:00.0', boards.A40),
        )

    def test_each_file_with_anything_in_it(self) -> None:
        text = strategies.one_of(
            strategies.binary(max_size=200),
            strategies.text(max_size=100).map(
                lambda t: t.encode('utf-8', 'replace')
            ),
            # Near what is looked for.
            strategies.text('RmPVL=0x1;pci:.", \n/mdevctl', max_size=60).map(
                str.encode
            ),
            strategies.sampled_from([t.encode() for t in SOUND.values()]),
        )

        @hypothesis.settings(
            max_examples=150,
            database=None,
            suppress_health_check=[*hypothesis.HealthCheck],
        )
        @hypothesis.given(strategies.sampled_from(sorted(SOUND)), text)
        def check(path: str, content: bytes) -> None:
            for name, sound in SOUND.items():
                self.put(name, sound)
            self.put(path, content)
            found = self.read()
            findings = diagnosis.diagnose(
                values.DoctorInput(self.host, surroundings=found)
            )
            self.assertNotEqual((), findings)

        check()
