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

"""The driver, the licence and the overrides of a guest."""

import dataclasses
import os
import time
import typing
from unittest import mock

from nova_vgpu.guest import facts
from nova_vgpu.sandbox import guests
from nova_vgpu.tests.unit.guest import test_facts

VGPU = guests.MACHINES['t4-vgpu-without-driver']
WHOLE = guests.MACHINES['a100-passthrough']
MODULES = f'lib/modules/{guests.KERNEL}'
VERSION = (
    'NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 '
    '19:39:15 UTC 2024\nGCC version:  gcc version 12.2.0 (Debian)\n'
)
# Of guests with a V100D and an A6000, as their users published them: the
# license status of each is the first one here.
PUBLISHED = """\
GPU 00000000:02:00.0
    Product Name                          : GRID V100D-32C
    Accounting Mode Buffer Size           : 4000
    Driver Model
        Current                           : N/A
    GSP Firmware Version                  : N/A
    GPU Virtualization Mode
        Virtualization Mode               : VGPU
        Host VGPU Mode                    : N/A
    vGPU Software Licensed Product
        Product Name                      : NVIDIA Virtual Compute Server
        License Status                    : Licensed (Expiry: 2025-3-19 7:29:4 GMT)
    GPU Reset Status
        Reset Required                    : N/A
    PCI
        Bus Id                            : 00000000:02:00.0
GPU 0000ABCD:00:10.0
    Product Name                          : NVIDIA RTXA6000-8Q
    GPU Virtualization Mode
        Virtualization Mode               : VGPU
    vGPU Software Licensed Product
        Product Name                      : NVIDIA RTX Virtual Workstation
        License Status                    : Unlicensed
"""  # noqa: E501 - as it is printed


class TestDrivers(test_facts.FactsTestCase):
    def read_driver(
        self, machine: guests.Machine, **more: typing.Any
    ) -> facts.Driver:
        changed = dataclasses.replace(machine, **more)
        (driver,) = self.read(changed).drivers
        return driver

    def with_driver(self, machine: guests.Machine) -> guests.Machine:
        *others, gpu = machine.devices
        bound = dataclasses.replace(gpu, driver='nvidia')
        return dataclasses.replace(machine, devices=(*others, bound))

    def test_whether_the_running_kernel_has_it(self) -> None:
        for case, files, expected in (
            ('neither', {}, False),
            ('dep', {'modules.dep': 'updates/dkms/nvidia.ko:\n'}, True),
            ('packed', {'modules.dep': 'extra/nvidia.ko.zst: a.ko\n'}, True),
            ('builtin', {'modules.builtin': 'kernel/x/nvidia.ko\n'}, True),
            ('another', {'modules.dep': 'extra/nvidia-drm.ko: \n'}, False),
            ('Debian', {'modules.dep': 'dkms/nvidia-current.ko:\n'}, True),
            ('needed', {'modules.dep': 'a.ko: extra/nvidia.ko\n'}, False),
        ):
            self.use_new_root()
            more = {f'{MODULES}/{name}': text for name, text in files.items()}
            driver = self.read_driver(VGPU, files=more)
            self.assertEqual(expected, driver.is_installed, case)
            self.assertFalse(driver.is_loaded, case)

    def test_what_cannot_be_read_is_unknown(self) -> None:
        guests.write_machine(VGPU, self.root)
        for path in (
            f'{MODULES}/modules.dep',
            'proc/sys/kernel/osrelease',
        ):
            (self.root / path).unlink()
            (driver,) = self.collect().drivers
            self.assertIsNone(driver.is_installed, path)

    def test_a_release_is_not_a_path(self) -> None:
        driver = self.read_driver(
            VGPU,
            files={
                'proc/sys/kernel/osrelease': '../../elsewhere\n',
                'elsewhere/modules.dep': 'nvidia.ko:\n',
            },
        )
        self.assertIsNone(driver.is_installed)

    def test_the_version(self) -> None:
        for case, modules, files, expected in (
            ('the module', {'nvidia': '550.144.03'}, {}, '550.144.03'),
            (
                'procfs',
                {'nvidia': None},
                {'proc/driver/nvidia/version': VERSION},
                '535.183.01',
            ),
            ('neither', {'nvidia': None}, {}, None),
            ('an escape sequence', {'nvidia': '\x1b[2J5'}, {}, None),
        ):
            self.use_new_root()
            driver = self.read_driver(VGPU, modules=modules, files=files)
            self.assertTrue(driver.is_loaded, case)
            self.assertEqual(expected, driver.version, case)

    def test_the_kind_of_driver_in_a_guest_with_a_vgpu(self) -> None:
        loaded = {'nvidia': '550.144.03'}
        manager = {**loaded, 'nvidia_vgpu_vfio': None}
        gridd = {'usr/bin/nvidia-gridd': ''}
        for case, more, expected in (
            ('nothing tells', {'modules': loaded}, None),
            ('gridd', {'modules': loaded, 'files': gridd}, True),
            ('the host driver', {'modules': manager}, False),
            ('both', {'modules': manager, 'files': gridd}, False),
        ):
            self.use_new_root()
            driver = self.read_driver(self.with_driver(VGPU), **more)
            self.assertIs(expected, driver.is_right_kind, case)

    def test_a_driver_of_the_wrong_kind_is_a_problem(self) -> None:
        (problem,) = self.read(
            dataclasses.replace(
                self.with_driver(VGPU),
                modules={'nvidia': '550.1', 'nvidia_vgpu_vfio': None},
            )
        ).problems
        self.assertIn('0000:06:00.0: the driver nvidia is not', problem)

    def test_the_kind_of_driver_for_a_whole_gpu(self) -> None:
        loaded = {'nvidia': '570.86.15'}
        for machine, expected in (
            (self.with_driver(WHOLE), True),
            (WHOLE, None),
        ):
            self.use_new_root()
            driver = self.read_driver(machine, modules=loaded)
            self.assertIs(expected, driver.is_right_kind)

    def test_a_whole_gpu_on_a_host_of_vgpus(self) -> None:
        machine = dataclasses.replace(WHOLE, is_guest=False)
        address = WHOLE.devices[1].address
        self.assertEqual(('datacenter',), self.read(machine).drivers_needed)
        for name in (
            'usr/bin/nvidia-vgpu-mgr',
            'sys/module/nvidia_vgpu_vfio/refcnt',
            f'sys/bus/pci/devices/{address}/mdev_supported_types/x/name',
            f'sys/bus/pci/devices/{address}/nvidia/current_vgpu_type',
        ):
            self.use_new_root()
            guests.write_machine(machine, self.root)
            self.write(name, '')
            needed = self.collect().drivers_needed
            self.assertEqual(('vgpu-host',), needed, name)

    def test_the_types_of_others_are_not_those_of_nvidia(self) -> None:
        (intel,) = guests.MACHINES['gvt-g'].devices
        machine = guests.Machine((intel, *WHOLE.devices), is_guest=False)
        guests.write_machine(machine, self.root)
        folder = f'sys/bus/pci/devices/{intel.address}'
        self.write(f'{folder}/mdev_supported_types/x/name', '')
        needed = self.collect().drivers_needed
        self.assertEqual(('intel', 'datacenter'), needed)

    def test_a_gpu_for_guests_needs_no_driver(self) -> None:
        *others, gpu = WHOLE.devices
        devices = (*others, dataclasses.replace(gpu, driver='vfio-pci'))
        machine = dataclasses.replace(WHOLE, devices=devices, is_guest=False)
        found = self.read(machine)
        self.assertEqual(((), ()), (found.drivers_needed, found.drivers))
        self.assertEqual('none', found.gpus[-1].driver_needed)

    def test_nouveau_is_a_problem(self) -> None:
        found = self.read(guests.MACHINES['two-vendors'])
        self.assertIn('nouveau is bound', found.problems[0])

    def test_the_driver_of_intel(self) -> None:
        machine = guests.MACHINES['intel-vf']
        for modules, bound, expected in (
            ({'xe': None}, 'xe', ('xe', True)),
            ({'i915': None}, 'i915', ('i915', True)),
            ({'xe': None}, None, ('xe', None)),
            ({}, None, ('i915', None)),
        ):
            self.use_new_root()
            *others, gpu = machine.devices
            devices = (*others, dataclasses.replace(gpu, driver=bound))
            driver = self.read_driver(
                machine, modules=modules, devices=devices
            )
            self.assertEqual(expected, (driver.module, driver.is_right_kind))


class TestNames(test_facts.FactsTestCase):
    PCI_IDS = (
        '# a comment\n1002  Advanced Micro Devices\n'
        '\t1eb8  Of another vendor\n'
        '10de  NVIDIA Corporation\n'
        '\t1eb7  TU104\n\t\t10de 130d  Of another chip\n'
        '\t1eb8  TU104GL [Tesla T4]\n'
        '\t\t10de 130c  GRID T4-1Q\n\t\t10de 130d  GRID T4-2Q\n'
        '\t1eb9  TU104GL\n\t\t10de 130d  Of another chip\n'
        'C 03  Display controller\n\t1eb8  A class\n'
    )

    def read_name(self, text: str, **files: str) -> tuple[object, ...]:
        self.use_new_root()
        more = {'usr/share/misc/pci.ids': text, **files}
        (gpu,) = self.read(dataclasses.replace(VGPU, files=more)).gpus
        return gpu.name, gpu.vgpu_type

    def test_from_the_list_of_pci_ids(self) -> None:
        text = self.PCI_IDS
        self.assertEqual(('GRID T4-2Q', 'T4-2Q'), self.read_name(text))
        shorter = text.replace('\t\t10de 130d  GRID T4-2Q\n', '')
        self.assertEqual(('TU104GL [Tesla T4]', None), self.read_name(shorter))
        self.assertEqual((None, None), self.read_name('10de  NVIDIA\n'))

    def test_the_driver_knows_better(self) -> None:
        path = 'proc/driver/nvidia/gpus/0000:06:00.0/information'
        for model, expected in (
            ('GRID T4-8Q', 'GRID T4-8Q'),
            ('Unknown', 'GRID T4-2Q'),
            ('\x1b[2J', '?[2J'),
        ):
            text = f'Model: \t\t {model}\nIRQ:   \t\t 42\n'
            found, _ = self.read_name(self.PCI_IDS, **{path: text})
            self.assertEqual(expected, found)

    def test_names_of_types(self) -> None:
        for name, expected in (
            ('GRID T4-2Q', ('T4-2Q', False)),
            ('NVIDIA A40-48Q', ('A40-48Q', False)),
            ('GRID A100-1-5C', ('A100-1-5C', True)),
            ('GRID A100-1-5CME', ('A100-1-5CME', True)),
            ('GRID A100-10C', ('A100-10C', False)),
            ('NVIDIA RTX6000-Ada-4Q', ('RTX6000-Ada-4Q', False)),
            (
                'NVIDIA RTX Pro 6000 Blackwell DC-1-24QGFX',
                ('RTX Pro 6000 Blackwell DC-1-24QGFX', True),
            ),
            ('GRID T4-2B4', ('T4-2B4', False)),
            ('Tesla T4', (None, None)),
            ('NVIDIA A100-PCIE-40GB', (None, None)),
            ('', (None, None)),
            (None, (None, None)),
        ):
            self.assertEqual(expected, facts.parse_type_name(name), str(name))


class TestLicences(test_facts.FactsTestCase):
    def test_what_was_published(self) -> None:
        self.assertEqual(
            {
                '0000:02:00.0': facts.DriverView(
                    'GRID V100D-32C',
                    'VGPU',
                    'NVIDIA Virtual Compute Server',
                    'Licensed (Expiry: 2025-3-19 7:29:4 GMT)',
                ),
                'abcd:00:10.0': facts.DriverView(
                    'NVIDIA RTXA6000-8Q',
                    'VGPU',
                    'NVIDIA RTX Virtual Workstation',
                    'Unlicensed',
                ),
            },
            facts.parse_nvidia_smi(PUBLISHED),
        )

    def test_what_is_not_the_output(self) -> None:
        for text in (
            '',
            'No devices were found\n',
            '    Product Name : nothing\n',
            'GPU 0000:0:0\n    Product Name : nothing\n',
            ':' * 100_000,
            ' ' * 100_000,
            'GPU 00000000:02:00.0\n' + ' ' * 100_000 + ': x',
        ):
            views = facts.parse_nvidia_smi(text)
            self.assertIn({*views.values()}, (set(), {facts.DriverView()}))

    def test_states(self) -> None:
        for kind, status, expected in (
            ('vgpu', 'Licensed (Expiry: 2027-1-2 3:4:5 GMT)', 'licensed'),
            ('vgpu', 'Licensed', 'licensed'),
            ('vgpu', 'Unlicensed (Restricted)', 'unlicensed'),
            ('vgpu', 'Unlicensed (Unrestricted)', 'unlicensed'),
            ('vgpu', 'Unlicensed', 'unlicensed'),
            ('vgpu', 'Something new', 'unknown'),
            ('vgpu', 'N/A', 'unknown'),
            ('vgpu', None, 'unknown'),
            ('unknown', None, 'unknown'),
            ('physical', None, 'not-needed'),
            ('physical', 'N/A', 'not-needed'),
            ('physical', 'Unlicensed', 'not-needed'),
            ('physical', 'Licensed', 'licensed'),
            ('vf', None, 'not-needed'),
        ):
            view = facts.DriverView(licence_status=status)
            state = facts.decide_licence(kind, view, False).state
            self.assertEqual(expected, state, f'{kind} {status}')

    def test_a_whole_gpu_needs_the_licence_that_is_configured(self) -> None:
        view = facts.DriverView(licence_status='Unlicensed (Restricted)')
        for is_configured, expected in (
            (True, 'unlicensed'),
            (None, 'unknown'),
            (False, 'not-needed'),
        ):
            licence = facts.decide_licence('physical', view, is_configured)
            self.assertEqual(expected, licence.state)
        machine = dataclasses.replace(
            WHOLE,
            modules={'nvidia': '570.86.15'},
            files={'etc/nvidia/gridd.conf': 'ServerAddress=10.0.0.1\n'},
            nvidia_smi=guests.make_nvidia_smi(
                WHOLE.devices[-1].address,
                'NVIDIA A100',
                'Pass-Through',
                'NVIDIA RTX Virtual Workstation',
                'Unlicensed (Restricted)',
            ),
        )
        self.assertEqual('unlicensed', self.read(machine).licence)

    def test_the_worst_one_counts(self) -> None:
        (gpu,) = self.read(guests.MACHINES['t4-vgpu']).gpus
        for states, expected in (
            (('licensed', 'unlicensed'), 'unlicensed'),
            (('licensed', 'unknown'), 'unknown'),
            (('not-needed', 'licensed'), 'licensed'),
            (('not-needed',), 'not-needed'),
            ((), 'not-needed'),
        ):
            gpus = [
                gpu._replace(licence=facts.Licence(state)) for state in states
            ]
            self.assertEqual(expected, facts.summarise_licences(gpus))

    def test_whether_one_is_configured(self) -> None:
        token = 'etc/nvidia/ClientConfigToken/client_token.tok'
        conf = 'etc/nvidia/gridd.conf'
        for files, expected in (
            ({}, False),
            ({token: 'secret'}, True),
            ({'etc/nvidia/ClientConfigToken/README': ''}, False),
            ({conf: 'ServerAddress=10.0.0.1\nServerPort=7070\n'}, True),
            ({conf: '#ServerAddress=10.0.0.1\nServerAddress=\n'}, False),
            ({conf: 'ServerAddress=""\nFeatureType=1\n'}, False),
            ({conf: 'ClientConfigTokenPath=/opt/tokens\n'}, True),
            ({f'run/nvidia/driver/{token}': 'secret'}, True),
            ({f'run/nvidia/driver/{conf}': 'ServerAddress=10.0.0.1\n'}, True),
        ):
            self.use_new_root()
            machine = dataclasses.replace(VGPU, files=files)
            found = self.read(machine)
            self.assertIs(expected, found.is_licence_configured, str(files))
            self.assertNotIn('secret', str(found))
            self.assertNotIn('10.0.0.1', str(found))

    def test_a_configuration_that_cannot_be_read_is_unknown(self) -> None:
        guests.write_machine(VGPU, self.root)
        # Root reads every file: a directory is in the place of one.
        (self.root / 'etc/nvidia/gridd.conf').mkdir(parents=True)
        self.assertIsNone(self.collect().is_licence_configured)
        self.write('etc/nvidia/ClientConfigToken', 'not a directory')
        self.assertIsNone(self.collect().is_licence_configured)


class TestProgram(test_facts.FactsTestCase):
    """nvidia-smi, in place of which there are scripts."""

    def make(self, text: str) -> str:
        self.write('nvidia-smi', f'#!/bin/sh\n{text}\n')
        path = self.root / 'nvidia-smi'
        path.chmod(0o755)
        return str(path)

    def test_what_it_prints(self) -> None:
        program = self.make('echo "$@" "$LC_ALL" "$SECRET"; echo no >&2')
        os.environ['SECRET'] = 'secret'
        self.addCleanup(os.environ.pop, 'SECRET')
        self.assertEqual(('-q C \n', ''), facts.run_nvidia_smi(program))

    def test_what_goes_wrong(self) -> None:
        for program, word in (
            (str(self.root / 'none'), 'cannot be run: No such file'),
            (str(self.root), 'cannot be run: Permission denied'),
            (self.make('exit 9'), 'failed with exit code 9'),
        ):
            output, problem = facts.run_nvidia_smi(program)
            self.assertEqual('', output)
            self.assertIn(f'{program} {word}', problem)

    def test_what_it_prints_counts_whatever_it_ends_with(self) -> None:
        """14 is an infoROM that is damaged."""
        program = self.make('echo GPU; exit 14')
        output, problem = facts.run_nvidia_smi(program)
        self.assertEqual('GPU\n', output)
        self.assertIn('failed with exit code 14', problem)

    def test_that_of_a_container_runs_in_it(self) -> None:
        """Where it has its libraries."""
        self.write('bin/chroot', '#!/bin/sh\necho "$@"\n')
        (self.root / 'bin/chroot').chmod(0o755)
        program = '/run/nvidia/driver/usr/bin/nvidia-smi'
        with mock.patch.dict(facts._ENVIRONMENT, PATH=str(self.root / 'bin')):
            output, problem = facts.run_nvidia_smi(program)
        self.assertEqual('', problem)
        self.assertEqual('/run/nvidia/driver /usr/bin/nvidia-smi -q\n', output)

    def test_one_that_hangs_is_killed_with_its_children(self) -> None:
        marker = self.root / 'pids'
        program = self.make(
            f'sleep 600 & echo $! $$ >{marker}; wait; echo never'
        )
        output, problem = facts.run_nvidia_smi(program, 1)
        self.assertEqual('', output)
        self.assertIn('timed out after 1 s', problem)
        for pid in marker.read_text().split():
            _wait_for_end(pid)

    def test_one_that_prints_too_much_is_killed(self) -> None:
        """What it has printed until then counts."""
        marker = self.root / 'pid'
        program = self.make(
            f'echo $$ >{marker}; echo GPU; '
            'head -c 2000000 /dev/zero | tr "\\0" x; exec sleep 600'
        )
        output, problem = facts.run_nvidia_smi(program)
        self.assertEqual('GPU\nxxx', output[:7])
        self.assertEqual(1024 * 1024, len(output))
        self.assertIn(f'{program} printed more than 1048576 bytes', problem)
        _wait_for_end(marker.read_text().strip())

    def test_as_much_as_is_read_is_not_too_much(self) -> None:
        program = self.make('head -c 1048576 /dev/zero; exit 14')
        output, problem = facts.run_nvidia_smi(program)
        self.assertEqual(1024 * 1024, len(output))
        self.assertIn('failed with exit code 14', problem)

    def test_one_that_closes_its_output_and_hangs(self) -> None:
        output, problem = facts.run_nvidia_smi(
            self.make('exec >&-; exec sleep 600'), 1
        )
        self.assertEqual('', output)
        self.assertIn('timed out after 1 s', problem)

    def test_it_does_not_run_without_a_driver(self) -> None:
        """It would load the driver."""
        asked = []

        def ask() -> tuple[str, str]:
            asked.append(1)
            return '', 'no answer'

        guests.write_machine(VGPU, self.root)
        found = facts.collect(self.tree, ask, {})
        self.assertEqual(([], ()), (asked, found.problems))
        (self.root / 'sys/module/nvidia').mkdir(parents=True)
        found = facts.collect(self.tree, ask, {})
        self.assertEqual(([1], ('no answer',)), (asked, found.problems))


def _wait_for_end(pid: str) -> None:
    """A process that was killed takes a moment to end."""
    deadline = time.monotonic() + 60
    while _is_running(pid):
        if time.monotonic() > deadline:
            raise AssertionError(f'process {pid} is still there')
        time.sleep(0.01)


def _is_running(pid: str) -> bool:
    """Whether a process is there and not only waiting to be collected."""
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


class TestOverrides(test_facts.FactsTestCase):
    FILE = '/'.join(facts.OVERRIDES_FILE)

    def test_nothing_is_set(self) -> None:
        found = self.read(VGPU)
        self.assertEqual(
            (True, False, {}),
            (found.is_virtual_gpu, found.is_gpu_cluster, found.overrides),
        )

    def test_the_nearest_one_counts(self) -> None:
        guests.write_machine(VGPU, self.root)
        path = str(self.root / self.FILE)
        variable = 'NOVA_VGPU_IS_VIRTUAL_GPU'
        self.write(self.FILE, 'is_virtual_gpu: yes\n')
        self.assertEqual(
            {'is_virtual_gpu': facts.Override(True, path)},
            self.collect().overrides,
        )
        self.environment[variable] = 'no'
        self.assertEqual(
            {'is_virtual_gpu': facts.Override(False, variable)},
            self.collect().overrides,
        )
        self.assertEqual(
            {'is_virtual_gpu': facts.Override(True, '--is-virtual-gpu')},
            self.collect(is_virtual_gpu=True).overrides,
        )

    def test_they_win_and_what_is_detected_stays(self) -> None:
        for machine, value, needed in (
            (VGPU, False, 'datacenter'),
            (WHOLE, True, 'vgpu-guest'),
            (guests.MACHINES['t4-vgpu-as-a-user'], True, 'vgpu-guest'),
            (guests.MACHINES['t4-host'], True, 'vgpu-guest'),
        ):
            self.use_new_root()
            found = self.read(machine)
            changed = self.collect(is_virtual_gpu=value)
            self.assertIs(value, changed.is_virtual_gpu)
            self.assertEqual((needed,), changed.drivers_needed)
            self.assertEqual(found.detected, changed.detected)
            self.assertEqual(
                {'is_virtual_gpu': found.is_virtual_gpu}, changed.detected
            )
            self.assertEqual(
                [gpu.kind for gpu in found.gpus],
                [gpu.kind for gpu in changed.gpus],
            )

    def test_a_host_that_is_said_to_be_a_guest(self) -> None:
        machine = guests.MACHINES['vgpu-host']
        found = self.read(machine, is_virtual_gpu=True)
        self.assertEqual(('vgpu-guest', 'vgpu-host'), found.drivers_needed)

    def test_what_is_detected_anyway_changes_nothing(self) -> None:
        machine = guests.MACHINES['vgpu-host']
        found = self.read(machine)
        again = self.collect(is_virtual_gpu=False)
        self.assertEqual(('vgpu-host',), again.drivers_needed)
        self.assertEqual(found.drivers, again.drivers)

    def test_the_other_vendors_do_not_change(self) -> None:
        found = self.read(guests.MACHINES['amd-vf'], is_virtual_gpu=True)
        self.assertEqual(('amd',), found.drivers_needed)

    def test_a_cluster(self) -> None:
        guests.write_machine(guests.MACHINES['no-gpu'], self.root)
        self.assertTrue(self.collect(is_gpu_cluster=True).is_gpu_cluster)

    def test_the_file_is_written_as_group_vars_are(self) -> None:
        guests.write_machine(VGPU, self.root)
        for text, expected in (
            ('---\n# why\nis_virtual_gpu: no\n', {'is_virtual_gpu': False}),
            ('is_gpu_cluster: "yes"  # nodes\n', {'is_gpu_cluster': True}),
            (
                "is_virtual_gpu: True\n\nis_gpu_cluster: 'off'\n",
                {'is_virtual_gpu': True, 'is_gpu_cluster': False},
            ),
            ('is_virtual_gpu: yes\r\n', {'is_virtual_gpu': True}),
            ('', {}),
        ):
            self.write(self.FILE, text)
            found = self.collect()
            values = {n: it.value for n, it in found.overrides.items()}
            self.assertEqual((expected, ()), (values, found.problems), text)

    def test_all_mistakes_are_told_at_once(self) -> None:
        guests.write_machine(VGPU, self.root)
        self.write(
            self.FILE, 'is_virtual_gpu: perhaps\nis_gpu: yes\nis_gpu_cluster\n'
        )
        self.environment['NOVA_VGPU_IS_GPU_CLUSTER'] = '\x1b[2Jmaybe'
        found = self.collect()
        self.assertEqual({}, found.overrides)
        self.assertEqual(4, len(found.problems), str(found.problems))
        for number, problem in enumerate(found.problems[:3], 1):
            self.assertIn(f'{self.FILE}, line {number}', problem)
        self.assertIn('?[2Jmaybe is ignored', found.problems[3])
        self.assertNotIn('\x1b', str(found.problems))

    def test_a_file_that_cannot_be_read(self) -> None:
        guests.write_machine(VGPU, self.root)
        path = self.root / self.FILE
        path.parent.mkdir(parents=True)
        os.mkfifo(path)
        (problem,) = self.collect().problems
        self.assertIn(f'{self.FILE} cannot be read', problem)
        path.unlink()
        path.mkdir()
        self.assertEqual((problem,), self.collect().problems)


class TestGaps(test_facts.FactsTestCase):
    """What is unknown is not "no"."""

    def test_a_bus_that_cannot_be_read(self) -> None:
        found = self.collect()
        self.assertEqual(
            (None, None, None, 'unknown', ()),
            (
                found.has_gpu,
                found.is_virtual_gpu,
                found.is_guest,
                found.licence,
                found.drivers_needed,
            ),
        )
        self.assertIn('sys/bus/pci/devices cannot be read', found.problems[0])

    def test_a_machine_without_pci(self) -> None:
        (self.root / 'sys/bus').mkdir(parents=True)
        found = self.collect()
        self.assertEqual((False, ()), (found.has_gpu, found.problems))

    def test_a_function_that_cannot_be_read(self) -> None:
        self.read(guests.MACHINES['no-gpu'])
        (self.root / 'sys/bus/pci/devices/0000:09:00.0').mkdir()
        (self.root / 'sys/bus/pci/devices/\x1b[2J').mkdir()
        found = self.collect()
        self.assertEqual((None, None), (found.has_gpu, found.is_virtual_gpu))
        self.assertEqual(2, len(found.problems))
        self.assertNotIn('\x1b', str(found.problems))

    def test_ids_are_in_the_header_too(self) -> None:
        guests.write_machine(VGPU, self.root)
        folder = self.root / 'sys/bus/pci/devices/0000:06:00.0'
        for name in ('vendor', 'device', 'class', 'subsystem_vendor'):
            (folder / name).write_text('nonsense')
        (folder / 'subsystem_device').unlink()
        (gpu,) = self.collect().gpus
        self.assertEqual(
            ('10de', '1eb8', '10de', '130d', '0300', 'vgpu'),
            (
                *(gpu.vendor_id, gpu.device_id, gpu.subsystem_vendor_id),
                *(gpu.subsystem_device_id, gpu.pci_class, gpu.kind),
            ),
        )

    def test_whether_it_is_a_guest(self) -> None:
        for files, expected in (
            ({'proc/cpuinfo': 'flags\t: fpu hypervisor vme\n'}, True),
            ({'proc/cpuinfo': 'flags\t: fpu vme\n'}, False),
            ({'proc/cpuinfo': 'Features\t: fp asimd\n'}, None),
            (
                {
                    'proc/cpuinfo': 'Features\t: fp asimd\n',
                    'sys/class/dmi/id/product_name': 'OpenStack Nova\n',
                },
                True,
            ),
            ({'sys/class/dmi/id/sys_vendor': 'Dell Inc.\n'}, None),
        ):
            self.use_new_root()
            for name, text in files.items():
                self.write(name, text)
            self.assertIs(expected, facts.read_is_guest(self.tree), str(files))

    def test_what_is_not_a_gpu(self) -> None:
        for vendor, pci_class, expected in (
            ('10de', '0300', True),
            ('10de', '0302', True),
            ('8086', '0380', True),
            ('1002', '1200', True),
            ('10de', '0680', False),  # NVSwitch
            ('10de', '0403', False),  # its sound
            ('8086', '1200', False),  # NPU
            ('1af4', '0300', False),  # virtio
            ('1234', '0300', False),  # bochs
        ):
            self.assertIs(expected, facts.is_gpu(vendor, pci_class))
