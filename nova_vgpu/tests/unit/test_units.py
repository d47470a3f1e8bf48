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

"""systemd's units: what they rely on, and what they must not have."""

import configparser
import io
import pathlib
import re
import shlex

import testtools

from nova_vgpu.cmd import main

ROOT = pathlib.Path(__file__).parents[3]
UNITS = ROOT / 'etc' / 'systemd'
APPLY = 'nova-vgpu-apply.service'
AGENT = 'nova-vgpu-agent.service'
ENFORCE = 'enforce.conf'
RELOAD = 'ExecReload=kill -HUP $MAINPID'

Section = dict[str, list[str]]


def parse(text: str) -> dict[str, Section]:
    """A unit by section and directive; a directive can be repeated."""
    found: dict[str, Section] = {}
    section: Section = {}
    for line in text.splitlines():
        if not line or line.startswith('#'):
            continue
        if title := re.fullmatch(r'\[(\w+)\]', line):
            section = found.setdefault(title[1], {})
            continue
        name, equals, value = line.partition('=')
        if not equals or not re.fullmatch(r'[A-Za-z]+', name):
            raise ValueError(f'{line!r} is no directive')
        section.setdefault(name, []).append(value)
    return found


class UnitTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.units = {
            path.name: parse(path.read_text()) for path in UNITS.iterdir()
        }
        self.apply = self.units[APPLY]
        self.agent = self.units[AGENT]
        self.enforce = self.units[ENFORCE]['Service']

    def words(self, section: Section, name: str) -> set[str]:
        return {word for value in section[name] for word in value.split()}

    def only(self, section: Section, name: str) -> str:
        (value,) = section[name]
        return value


class TestAll(UnitTestCase):
    def test_each_is_in_the_package(self) -> None:
        setup = configparser.ConfigParser()
        setup.read_string((ROOT / 'setup.cfg').read_text())
        installed = re.findall(
            r'etc/systemd/(\S+)', setup['files']['data_files']
        )
        self.assertEqual(sorted(self.units), sorted(installed))

    def test_what_they_start_is_a_command_with_options_of_its(self) -> None:
        program = main.NovaVGPU(io.StringIO(), io.StringIO())
        for name, unit in self.units.items():
            lines = [line for line in unit['Service']['ExecStart'] if line]
            (line,) = lines
            path, *words = shlex.split(line)
            self.assertEqual('/opt/nova-vgpu/bin/nova-vgpu', path, name)
            _, rest = program.parser.parse_known_args(words)
            factory, found, left = program.command_manager.find_command(rest)
            parser = factory(program, None).get_parser(found)
            parser.parse_args(left)  # raises for what it does not know

    def test_there_is_no_shell_and_no_sleep(self) -> None:
        for name in self.units:
            for line in (UNITS / name).read_text().splitlines():
                if line == RELOAD:
                    continue
                if line.startswith('Exec'):
                    self.assertNotRegex(line, r'\bsh\b|bash|sleep|[;|&$`]')
                    self.assertRegex(line, '^ExecStart=')

    def test_the_vendors_program_is_not_ended_in_the_middle(self) -> None:
        for unit in (self.apply, self.agent):
            self.assertEqual('mixed', self.only(unit['Service'], 'KillMode'))

    def test_they_can_be_enabled(self) -> None:
        for unit in (self.apply, self.agent):
            self.assertEqual(
                'multi-user.target', self.only(unit['Install'], 'WantedBy')
            )


class TestApply(UnitTestCase):
    def test_it_has_its_place_in_the_order_of_the_boot(self) -> None:
        unit = self.apply['Unit']
        for name in (
            'nvidia-vgpud.service',
            'nvidia-vgpu-mgr.service',
            'nvidia-mig-manager.service',
            'libvirtd.service',
            'virtqemud.socket',
            'virtnodedevd.socket',
        ):
            self.assertIn(name, self.words(unit, 'After'))
        for name in (
            'nova-compute.service',
            'openstack-nova-compute.service',
            'libvirt-guests.service',
        ):
            self.assertIn(name, self.words(unit, 'Before'))

    def test_nova_starts_also_if_it_fails(self) -> None:
        for name in ('RequiredBy', 'BindsTo', 'PartOf', 'Requires'):
            for section in self.apply.values():
                self.assertNotIn(name, section)

    def test_it_runs_once_and_what_servers_have_is_no_failure(self) -> None:
        service = self.apply['Service']
        self.assertEqual('oneshot', self.only(service, 'Type'))
        self.assertEqual('yes', self.only(service, 'RemainAfterExit'))
        self.assertEqual('3', self.only(service, 'SuccessExitStatus'))
        self.assertEqual('15min', self.only(service, 'TimeoutStartSec'))

    def test_it_may_write_to_sysfs_and_load_modules(self) -> None:
        service = self.apply['Service']
        for name in (
            'ProtectKernelTunables',
            'ProtectKernelModules',
            'PrivateDevices',
            'ProtectClock',
            'DeviceAllow',
            'DevicePolicy',
            'CapabilityBoundingSet',
            'SystemCallFilter',
        ):
            self.assertNotIn(name, service)
        self.assertEqual('full', self.only(service, 'ProtectSystem'))


class TestAgent(UnitTestCase):
    def test_systemd_hears_from_it(self) -> None:
        service = self.agent['Service']
        self.assertEqual('notify', self.only(service, 'Type'))
        self.assertEqual('on-failure', self.only(service, 'Restart'))
        self.assertEqual('15min', self.only(service, 'WatchdogSec'))
        self.assertIn(APPLY, self.words(self.agent['Unit'], 'After'))

    def test_it_can_be_reloaded(self) -> None:
        reload = self.only(self.agent['Service'], 'ExecReload')
        self.assertEqual(RELOAD, f'ExecReload={reload}')

    def test_it_only_reads(self) -> None:
        service = self.agent['Service']
        self.assertNotIn('--enforce', self.only(service, 'ExecStart'))
        for name, value in (
            ('CapabilityBoundingSet', 'CAP_DAC_READ_SEARCH'),
            ('NoNewPrivileges', 'yes'),
            ('DevicePolicy', 'closed'),
            ('ProtectKernelModules', 'yes'),
            ('ProtectKernelTunables', 'yes'),
            ('ProtectSystem', 'strict'),
            ('SystemCallFilter', '@system-service'),
            ('IPAddressDeny', 'any'),
            ('IPAddressAllow', 'localhost'),
            ('StateDirectory', 'nova-vgpu'),
        ):
            self.assertEqual(value, self.only(service, name), name)

    def test_nvml_has_the_devices_of_its_driver_and_no_others(self) -> None:
        service = self.agent['Service']
        self.assertNotIn('PrivateDevices', service)  # which hides them
        allowed = self.only(service, 'DeviceAllow')
        self.assertEqual('char-nvidia* rw', allowed)

    def test_it_can_listen_to_udev_talk_to_libvirt_and_serve(self) -> None:
        families = self.words(self.agent['Service'], 'RestrictAddressFamilies')
        self.assertEqual(
            {'AF_NETLINK', 'AF_UNIX', 'AF_INET', 'AF_INET6'}, families
        )
        self.assertNotIn('PrivateNetwork', self.agent['Service'])

    def test_the_drop_in_gives_what_a_repair_needs(self) -> None:
        first, command = self.enforce['ExecStart']
        self.assertEqual('', first)  # or there would be two commands
        self.assertIn('--enforce', command)
        for name, value in (
            ('ProtectKernelTunables', 'no'),
            ('ProtectKernelModules', 'no'),
            ('DeviceAllow', ''),
            ('DevicePolicy', 'auto'),
            ('ProtectClock', 'no'),
            ('ProtectSystem', 'full'),
            ('CapabilityBoundingSet', '~'),
            ('SystemCallFilter', '@module'),
        ):
            self.assertEqual(value, self.only(self.enforce, name), name)
