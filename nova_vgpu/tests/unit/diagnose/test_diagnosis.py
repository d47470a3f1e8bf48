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

"""Each finding of the doctor, on the host that has it."""

import ast
import dataclasses
import pathlib
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.diagnose import diagnosis
from nova_vgpu.plan import readiness
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

T4 = hosts.gpu('84:00.0', boards.T4)
A40 = hosts.gpu('41:00.0', boards.A40, vfs=32)
L40S = hosts.gpu('0001:c8:00.0', boards.L40S, vfs=32, vendor_vfio=True)
VFS_OFF = hosts.gpu('c1:00.0', boards.A40)
M60 = dataclasses.replace(boards.T4, device=0x13F2, types=())
A100 = dataclasses.replace(boards.A40, device=0x20F1, types=())

ADDRESS = values.PciAddress.parse('84:00.0')
SOUND = values.Environment(
    command_line=values.Evidence('/proc/cmdline', 'ro intel_iommu=on'),
    iommus=2,
    iommu_groups=90,
    mdevctl=('/usr/sbin/mdevctl',),
    udev_calls=(
        values.UdevCall('60-mdevctl.rules', '/usr/sbin/mdevctl', True),
    ),
    vgpu_managers=(77,),
    driver_version=values.Evidence('/sys/module/nvidia/version', '550.54.16'),
    loaded_dwords=values.Evidence('/proc/driver/nvidia/params', ''),
)
ON, OFF = values.GPUMode(True, True), values.GPUMode(False, False)


def modes(**known: typing.Any) -> values.ModesRead:
    """What NVML says of the GPU at 84:00.0."""
    return values.ModesRead(((ADDRESS, values.GPUModes(**known)),))


def examine(
    *cards: simulation.GPU,
    enabled: tuple[str, ...] = (),
    problems: tuple[values.Problem, ...] = (),
    **known: typing.Any,
) -> values.DoctorInput:
    host = known.pop('host', None) or hosts.make_host(*cards)
    declaration = values.Declaration(
        tuple(values.DeclaredType(name, f'vgpu_{name}') for name in enabled)
    )
    return values.DoctorInput(
        host,
        declaration,
        plans.make_plan(declaration, host, problems, modes=known.get('modes')),
        **({'surroundings': SOUND} | known),
    )


def for_the_t4(
    card: simulation.GPU, **known: typing.Any
) -> values.DoctorInput:
    """A host whose T4 is to make vGPUs, and no other GPU."""
    examined = examine(T4, card, enabled=('T4-2Q',), **known)
    kept = [a for a in examined.plan.assignments if a.gpu.address == ADDRESS]
    return dataclasses.replace(examined, plan=values.Plan(tuple(kept)))


class DiagnosisTestCase(testtools.TestCase):
    def find(
        self, examined: values.DoctorInput, *notes: str
    ) -> list[values.Finding]:
        """What is found, notes aside unless they are asked for."""
        found = diagnosis.diagnose(examined)
        for finding in found:
            self.assertNotEqual((), finding.evidence, finding.code)
            self.assertTrue(finding.text.endswith('.'), finding.text)
        ranks = [list(values.Severity).index(f.severity) for f in found]
        self.assertEqual(sorted(ranks), ranks)
        return [
            finding
            for finding in found
            if finding.severity is not values.Severity.NOTE
            or finding.code in notes
        ]

    def assertFound(
        self,
        examined: values.DoctorInput,
        severity: str,
        code: str,
        *words: str,
    ) -> values.Finding:
        """Exactly this one is found, with these words somewhere in it."""
        found = self.find(examined, *([code] if severity == 'note' else []))
        self.assertEqual(
            [(severity, code)], [(f.severity.value, f.code) for f in found]
        )
        text = ' '.join(
            (found[0].text, found[0].cure, *map(str, found[0].evidence))
        )
        for word in words:
            self.assertIn(word, text)
        return found[0]


class TestSoundHosts(DiagnosisTestCase):
    def test_there_is_nothing_but_a_few_notes(self) -> None:
        found = diagnosis.diagnose(examine(T4, enabled=('T4-2Q',)))
        self.assertEqual(
            [
                ('note', 'scheduler'),
                ('note', 'framework'),
                ('note', 'licence'),
            ],
            [(f.severity.value, f.code) for f in found],
        )

    def test_gpus_that_differ_are_told_one_by_one(self) -> None:
        intel = hosts.gpu('00:02.0', boards.HD_530)
        found = self.find(examine(T4, intel), 'framework')
        self.assertEqual(
            {
                ('0000:84:00.0', '15 types'),
                ('0000:00:02.0', '2 types'),
            },
            {(f.subject, f.evidence[0].value) for f in found},
        )

    def test_every_framework(self) -> None:
        for card, framework in (
            (T4, 'mdev.'),
            (A40, 'mdev on VFs.'),
            (L40S, 'vendor VFIO.'),
        ):
            found = self.find(examine(card), 'framework')
            self.assertEqual(['framework'], [f.code for f in found])
            self.assertIn(framework, found[0].text)
            self.assertIn('550.54.16', str(found[0].evidence[1]))

    def test_gpus_alike_share_a_note(self) -> None:
        more = hosts.gpu('85:00.0', boards.T4)
        (note,) = self.find(examine(T4, more), 'framework')
        self.assertEqual('0000:84:00.0, 0000:85:00.0', note.subject)

    def test_graphics_of_a_mainboard_are_no_matter(self) -> None:
        plain = dataclasses.replace(boards.HD_530, types=())
        self.assertEqual(
            (), diagnosis.diagnose(examine(hosts.gpu('00:02.0', plain)))
        )

    def test_a_host_without_gpus(self) -> None:
        self.assertEqual(
            (),
            diagnosis.diagnose(
                examine(surroundings=values.Environment(iommus=0))
            ),
        )


class TestGPUs(DiagnosisTestCase):
    def test_a_declared_type_that_is_not_a_vf_profile(self) -> None:
        host = hosts.make_host(hosts.gpu('03:00.0', boards.UHD_770, vfs=7))
        for name, codes in (
            # The plan alone tells whether VFs are provisioned.
            ('UHD 770-1of7', []),
            # A model of Intel ends in a digit.
            ('ADL-1of7', ['no-types-ever']),
        ):
            declaration = values.Declaration(
                (values.DeclaredType(name, f'vgpu_{name}', ('03:00.0',)),)
            )
            examined = values.DoctorInput(
                host,
                declaration,
                plans.make_plan(declaration, host),
                surroundings=SOUND,
            )
            found = self.find(examined)
            self.assertEqual(codes, [f.code for f in found], name)

    def test_obstacles_have_their_evidence(self) -> None:
        def on(driver: str | None) -> simulation.GPU:
            return hosts.gpu('c1:00.0', boards.A40, driver=driver)

        late = hosts.gpu('c1:00.0', boards.A40, vfs=2, types_ready=False)
        device = '/sys/bus/pci/devices/0000:c1:00.0'
        for card, code, seen in (
            (VFS_OFF, 'vfs-off', f'{device}/sriov_totalvfs: 32'),
            (on(None), 'no-driver', f'{device}/driver: none'),
            (
                on('pci-pf-stub'),
                'on-stub-driver',
                f'{device}/driver: pci-pf-stub',
            ),
            (on('nouveau'), 'plain-driver', f'{device}/driver: nouveau'),
            (late, 'no-types-yet', f'{device}/virtfn*/driver: nvidia'),
        ):
            finding = self.assertFound(examine(card), 'error', code)
            self.assertEqual('0000:c1:00.0', finding.subject)
            self.assertIn(seen, map(str, finding.evidence))

    def test_every_obstacle_is_known_by_its_code(self) -> None:
        tree = ast.parse(pathlib.Path(readiness.__file__).read_text())
        codes = {
            node.args[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and ast.unparse(node.func) == 'Obstacle'
            and isinstance(node.args[0], ast.Constant)
        }
        self.assertEqual(codes, readiness.OBSTACLES)

    def test_a_gpu_that_nobody_wants_is_a_warning(self) -> None:
        self.assertFound(for_the_t4(VFS_OFF), 'warning', 'vfs-off')

    def test_a_gpu_that_is_to_serve_is_an_error_once(self) -> None:
        found = self.find(examine(A40, VFS_OFF, enabled=('A40-8Q',)))
        self.assertEqual(['vfs-off'], [finding.code for finding in found])

    def test_a_gpu_that_is_passed_through_on_purpose(self) -> None:
        card = hosts.gpu('c1:00.0', boards.A40, driver='vfio-pci')
        around = dataclasses.replace(
            SOUND,
            command_line=values.Evidence(
                '/proc/cmdline', 'ro vfio-pci.ids=10DE:2235 vfio-pci.ids=1:2'
            ),
        )
        note = self.assertFound(
            examine(card, surroundings=around), 'note', 'passed-through'
        )
        self.assertEqual(
            [
                '/sys/bus/pci/devices/0000:c1:00.0/driver: vfio-pci',
                '/proc/cmdline: vfio-pci.ids=10DE:2235',
            ],
            [str(evidence) for evidence in note.evidence],
        )

    def test_a_gpu_that_is_passed_through_and_to_serve(self) -> None:
        gpu = hosts.make_gpu(
            hosts.gpu('c1:00.0', boards.A40, driver='vfio-pci')
        )
        examined = examine(T4, host=values.Host((gpu,)), enabled=('A40-8Q',))
        declared = examined.declaration.types[0]
        assigned = values.Assignment(
            gpu, declared, values.Reason.LISTED, gpu.functions
        )
        examined = dataclasses.replace(examined, plan=values.Plan((assigned,)))
        self.assertFound(examined, 'error', 'passed-through')

    def test_types_that_wait_for_gpu_instances(self) -> None:
        card = hosts.gpu('84:00.0', A100, vfs=2, types_ready=False)
        self.assertFound(
            examine(card, modes=modes(mig=ON)),
            'error',
            'no-types-yet',
            'NVML, MIG mode: on',
            'GPU instances',
        )

    def test_functions_that_a_guest_took_along(self) -> None:
        gpu = hosts.make_gpu(A40)
        lost = dataclasses.replace(gpu.vfs[3], driver='vfio-pci', offers=())
        gpu = dataclasses.replace(gpu, vfs=(*gpu.vfs[:3], lost, *gpu.vfs[4:]))
        self.assertFound(
            examine(host=values.Host((gpu,))),
            'warning',
            'vfs-astray',
            '1 of 32',
            f'{lost.address}/driver: vfio-pci',
        )

    def test_functions_whose_driver_is_not_told(self) -> None:
        gpu = hosts.make_gpu(A40)
        bare = dataclasses.replace(gpu.vfs[0], driver=None)
        lost = dataclasses.replace(bare, offers=())
        for case, changed in (
            ('it has types', dataclasses.replace(gpu, vfs=(bare,))),
            (
                'nor is that of the GPU',
                dataclasses.replace(
                    gpu, driver=None, vfs=(lost, *gpu.vfs[1:])
                ),
            ),
        ):
            found = self.find(examine(host=values.Host((changed,))))
            self.assertEqual([], found, case)

    def test_all_functions_that_there_could_be(self) -> None:
        self.assertEqual([], self.find(examine(A40), 'vfs-partly-on'))

    def test_fewer_functions_than_there_could_be(self) -> None:
        card = hosts.gpu('41:00.0', boards.A40, vfs=4)
        self.assertFound(examine(card), 'note', 'vfs-partly-on', '4 of 32')

    def test_what_could_not_be_read(self) -> None:
        fault = values.ReadFault('pci_0000_84_00_0', '/sys/x', 'i/o error')
        self.assertFound(
            examine(host=values.Host(faults=(fault,))),
            'error',
            'unreadable',
            '/sys/x: i/o error',
        )


class TestSurroundings(DiagnosisTestCase):
    def around(self, **changes: typing.Any) -> values.Environment:
        return dataclasses.replace(SOUND, **changes)

    def test_the_iommu_is_off(self) -> None:
        around = self.around(iommus=0, iommu_groups=0)
        self.assertFound(
            examine(A40, surroundings=around),
            'error',
            'iommu-off',
            '/sys/class/iommu: empty',
            '/sys/kernel/iommu_groups: 0',
            '/proc/cmdline: intel_iommu=on',
            'VT-d',
        )

    def test_the_kernel_was_told_to_turn_it_off(self) -> None:
        line = values.Evidence('/proc/cmdline', 'ro amd_iommu=off quiet')
        around = self.around(iommus=0, command_line=line)
        self.assertFound(
            examine(A40, surroundings=around),
            'error',
            'iommu-off',
            '/proc/cmdline: amd_iommu=off',
            'Remove amd_iommu=off from',
        )

    def test_the_iommu_is_no_matter(self) -> None:
        for case, card, known in (
            ('without SR-IOV', T4, {'iommus': 0}),
            ('not known', A40, {'iommus': None}),
        ):
            found = self.find(examine(card, surroundings=self.around(**known)))
            self.assertEqual([], found, case)

    def test_the_vgpu_manager_does_not_run(self) -> None:
        around = self.around(vgpu_managers=())
        for card in (T4, A40, L40S):
            self.assertFound(
                examine(card, surroundings=around),
                'error',
                'vgpu-manager-not-running',
                '/proc/*/comm: no nvidia-vgpu-mgr',
                'systemctl start',
            )

    def test_gpus_that_nobody_wants_are_a_warning(self) -> None:
        around = self.around(iommus=0)
        self.assertFound(
            for_the_t4(A40, surroundings=around), 'warning', 'iommu-off'
        )
        intel = hosts.gpu('00:02.0', boards.HD_530)
        examined = examine(
            T4, intel, surroundings=self.around(vgpu_managers=())
        )
        wanted = values.Declaration((values.DeclaredType('x', 'vgpu_x'),))
        self.assertFound(
            dataclasses.replace(
                examined, declaration=wanted, plan=values.Plan()
            ),
            'warning',
            'vgpu-manager-not-running',
        )

    def test_the_vgpu_manager_is_no_matter(self) -> None:
        stub = hosts.gpu('c1:00.0', boards.A40, driver='vfio-pci')
        intel = hosts.gpu('00:02.0', boards.HD_530)
        none, hidden = self.around(vgpu_managers=()), self.around()
        hidden = dataclasses.replace(hidden, vgpu_managers=None)
        for card, around in ((stub, none), (intel, none), (T4, hidden)):
            self.assertEqual([], self.find(examine(card, surroundings=around)))

    def test_mdevctl_is_missing(self) -> None:
        around = self.around(mdevctl=(), udev_calls=())
        for card in (T4, A40):
            self.assertFound(
                examine(card, surroundings=around),
                'error',
                'mdevctl-missing',
                '/usr/sbin/mdevctl: not found',
            )
        self.assertEqual([], self.find(examine(L40S, surroundings=around)))

    def test_mdevctl_is_not_where_udev_calls_it(self) -> None:
        call = values.UdevCall('/lib/60.rules', '/usr/sbin/mdevctl', False)
        around = self.around(mdevctl=('/usr/bin/mdevctl',), udev_calls=(call,))
        self.assertFound(
            examine(T4, surroundings=around),
            'warning',
            'mdevctl-not-called',
            '/lib/60.rules: calls /usr/sbin/mdevctl, which does not exist',
            '/usr/bin/mdevctl: found',
            'ln -s /usr/bin/mdevctl /usr/sbin/mdevctl',
        )

    def test_one_rule_that_finds_mdevctl_is_enough(self) -> None:
        call = values.UdevCall('/lib/60.rules', '/usr/sbin/x', False)
        around = self.around(udev_calls=(call, *SOUND.udev_calls))
        self.assertEqual([], self.find(examine(T4, surroundings=around)))

    def test_no_rule_calls_mdevctl(self) -> None:
        self.assertFound(
            examine(T4, surroundings=self.around(udev_calls=())),
            'warning',
            'mdevctl-not-called',
            'No rule of udev calls mdevctl.',
        )

    def test_a_file_that_could_not_be_read(self) -> None:
        fault = values.ReadFault('host', '/proc/cmdline', 'permission denied')
        self.assertFound(
            examine(T4, surroundings=self.around(faults=(fault,))),
            'warning',
            'unreadable',
            '/proc/cmdline: permission denied',
        )

    def test_a_host_elsewhere_has_no_such_findings(self) -> None:
        found = diagnosis.diagnose(examine(T4, surroundings=None))
        self.assertEqual(['framework'], [finding.code for finding in found])


class TestModes(DiagnosisTestCase):
    def test_ecc_on_gpus_that_make_no_vgpus_with_it(self) -> None:
        card = hosts.gpu('84:00.0', M60)
        found = self.find(examine(card, modes=modes(ecc=ON)))
        self.assertEqual(
            ['no-types', 'ecc-on'], [finding.code for finding in found]
        )
        self.assertIn('an M60 do not start', found[1].text)
        self.assertIn('nvidia-smi -i 0000:84:00.0 -e 0', found[1].cure)

    def test_ecc_off_on_such_a_gpu(self) -> None:
        card = hosts.gpu('84:00.0', M60)
        found = self.find(examine(card, modes=modes(ecc=OFF)))
        self.assertEqual(['no-types'], [finding.code for finding in found])

    def test_ecc_on_a_gpu_that_nobody_wants(self) -> None:
        wanted = values.Declaration((values.DeclaredType('x', 'vgpu_x'),))
        examined = dataclasses.replace(
            examine(hosts.gpu('84:00.0', M60), modes=modes(ecc=ON)),
            declaration=wanted,
        )
        found = {f.code: f.severity for f in self.find(examined)}
        self.assertEqual(values.Severity.WARNING, found['ecc-on'])

    def test_ecc_with_a_driver_from_before(self) -> None:
        for version, expected in (
            ('418.66', ['ecc-on']),
            ('430.46', []),
            ('550.54.16', []),
            ('strange', []),
        ):
            read = dataclasses.replace(modes(ecc=ON), driver_version=version)
            found = self.find(examine(T4, modes=read))
            self.assertEqual(expected, [f.code for f in found], version)

    def test_the_version_may_be_known_from_files_only(self) -> None:
        around = dataclasses.replace(
            SOUND, driver_version=values.Evidence('/sys/v', '418.66')
        )
        self.assertFound(
            examine(T4, modes=modes(ecc=ON), surroundings=around),
            'error',
            'ecc-on',
            'driver 418.66',
        )

    def test_ecc_that_no_vgpu_makes_use_of(self) -> None:
        for name, expected in (('T4-2B', 1), ('T4-2Q', 0), ('T4-4C', 0)):
            found = self.find(
                examine(T4, enabled=(name,), modes=modes(ecc=ON)), 'ecc-unused'
            )
            self.assertEqual(expected, len(found), name)

    def test_ecc_that_waits_for_a_reboot(self) -> None:
        self.assertFound(
            examine(T4, modes=modes(ecc=values.GPUMode(True, False))),
            'note',
            'ecc-pending',
            'NVML, ECC mode: on, pending: off',
        )

    def test_ecc_that_is_off_is_no_matter(self) -> None:
        found = self.find(
            examine(T4, modes=modes(ecc=OFF)), 'ecc-unused', 'ecc-pending'
        )
        self.assertEqual([], found)

    def test_a_type_that_needs_mig_mode(self) -> None:
        card = hosts.gpu('84:00.0', boards.T4)
        examined = examine(card, enabled=('A100-2-10C',), modes=modes(mig=OFF))
        found = {f.code: f for f in self.find(examined)}
        self.assertIn('-mig 1', found['mig-off'].cure)
        self.assertEqual(values.Severity.ERROR, found['mig-off'].severity)
        self.assertNotIn('mig-on', found)

    def test_a_type_that_does_not_go_with_mig_mode(self) -> None:
        self.assertFound(
            examine(T4, enabled=('T4-2Q',), modes=modes(mig=ON)),
            'error',
            'mig-on',
            'NVML, MIG mode: on',
            '-mig 0',
        )

    def test_mig_mode_that_suits_is_no_matter(self) -> None:
        for case, enabled, mig in (
            ('time-sliced', ('T4-2Q',), OFF),
            ('backed by MIG', ('A100-2-10C',), ON),
            ('nothing declared', (), ON),
        ):
            examined = examine(T4, enabled=enabled, modes=modes(mig=mig))
            codes = {finding.code for finding in self.find(examined)}
            self.assertEqual(set(), codes & {'mig-on', 'mig-off'}, case)

    def test_mig_mode_that_waits_for_a_reset(self) -> None:
        self.assertFound(
            examine(T4, modes=modes(mig=values.GPUMode(False, True))),
            'warning',
            'mig-pending',
            'NVML, MIG mode: off, pending: on',
        )

    def test_heterogeneous_mode(self) -> None:
        known = modes(heterogeneous=True)
        self.assertFound(
            examine(T4, enabled=('T4-2Q',), modes=known),
            'warning',
            'heterogeneous-on',
            'nvidia-smi vgpu -shm 0 -i 0000:84:00.0',
        )
        self.assertFound(examine(T4, modes=known), 'note', 'heterogeneous-on')
        self.assertEqual(
            [],
            self.find(
                examine(T4, modes=modes(heterogeneous=False)),
                'heterogeneous-on',
            ),
        )

    def test_heterogeneous_mode_of_a_gpu_that_needs_it(self) -> None:
        known = modes(heterogeneous=True)
        found = examine(T4, modes=known)
        types = tuple(
            values.DeclaredType(name, f'vgpu_{name}', (f'{ADDRESS}=1',))
            for name in ('T4-2Q', 'T4-4Q')
        )
        plan = plans.make_plan(values.Declaration(types), found.host)
        self.assertEqual(2, len(plan.assignments))
        divided = dataclasses.replace(found, plan=plan)
        self.assertEqual([], self.find(divided, 'heterogeneous-on'))

    def test_heterogeneous_mode_with_the_fixed_share(self) -> None:
        known = modes(
            heterogeneous=True, scheduler=values.SchedulerPolicy.FIXED_SHARE
        )
        self.assertFound(
            examine(T4, modes=known),
            'note',
            'heterogeneous-on',
            'fixed share does not support',
        )

    def test_nvml_that_says_nothing(self) -> None:
        silent = values.ModesRead(unknown_because='it is not installed')
        self.assertFound(
            examine(T4, modes=silent),
            'note',
            'nvml-silent',
            'NVML: it is not installed',
            'nova-vgpu[nvml]',
        )
        intel = hosts.gpu('00:02.0', boards.HD_530)
        self.assertEqual(
            [], self.find(examine(intel, modes=silent), 'nvml-silent')
        )


class TestScheduler(DiagnosisTestCase):
    def around(self, loaded: str, *modprobe: str) -> values.Environment:
        parameters = '/proc/driver/nvidia/params'
        return dataclasses.replace(
            SOUND,
            loaded_dwords=values.Evidence(parameters, loaded),
            modprobe_dwords=tuple(
                values.Evidence('/etc/modprobe.d/n.conf', m) for m in modprobe
            ),
        )

    def test_what_the_driver_was_loaded_with(self) -> None:
        for dwords, word, seen in (
            ('', 'best effort', 'RmPVMRL is not set'),
            ('RmPVMRL=0x01', 'equal share', 'RmPVMRL=0x01'),
            ('RmPVMRL=0x11', 'fixed share', 'RmPVMRL=0x11'),
            ('RmPVMRL=0x41', 'unknown', 'RmPVMRL=0x41'),
        ):
            self.assertFound(
                examine(T4, surroundings=self.around(dwords)),
                'note',
                'scheduler',
                f': {word}, unless nvidia-smi changed it',
                f'/proc/driver/nvidia/params: {seen}',
            )

    def test_what_is_in_force_goes_first(self) -> None:
        known = modes(scheduler=values.SchedulerPolicy.FIXED_SHARE)
        self.assertFound(
            examine(T4, modes=known),
            'note',
            'scheduler',
            'GPU 0000:84:00.0: fixed share.',
            'NVML, vGPU scheduler: fixed share',
        )

    def test_a_gpu_with_a_policy_of_its_own(self) -> None:
        around = dataclasses.replace(
            SOUND,
            loaded_dwords_per_gpu=values.Evidence(
                '/proc', 'pci=0000:85:00.0;RmPVMRL=0x11'
            ),
        )
        more = hosts.gpu('85:00.0', boards.T4)
        found = self.find(examine(T4, more, surroundings=around), 'scheduler')
        self.assertEqual(
            ['0000:84:00.0', '0000:85:00.0'], [f.subject for f in found]
        )
        self.assertIn('fixed share', found[1].text)

    def test_a_file_that_was_not_loaded(self) -> None:
        self.assertFound(
            examine(
                T4,
                surroundings=self.around('', 'RmPVMRL=0x00', 'RmPVMRL=0x11'),
            ),
            'warning',
            'scheduler-not-loaded',
            '/etc/modprobe.d/n.conf: RmPVMRL=0x11',
            '/proc/driver/nvidia/params: RmPVMRL is not set',
            'update-initramfs',
        )

    def test_a_file_that_was_loaded(self) -> None:
        around = self.around('RmPVMRL=0x11', 'RmPVMRL=0x1', 'RmPVMRL=0x11')
        self.assertEqual([], self.find(examine(T4, surroundings=around)))

    def test_hosts_that_have_none(self) -> None:
        intel = hosts.gpu('00:02.0', boards.HD_530)
        unknown = dataclasses.replace(SOUND, loaded_dwords=None)
        for card, around in ((intel, SOUND), (T4, unknown), (VFS_OFF, SOUND)):
            examined = examine(card, surroundings=around)
            found = {f.code for f in self.find(examined, 'scheduler')}
            self.assertNotIn('scheduler', found)


class TestConfiguration(DiagnosisTestCase):
    def test_post_copy_with_vgpus(self) -> None:
        seen = values.Evidence('/etc/nova/nova.conf', 'true')
        self.assertFound(
            examine(T4, enabled=('T4-2Q',), post_copy=seen),
            'warning',
            'post-copy',
            '/etc/nova/nova.conf: true',
            '[libvirt]live_migration_permit_post_copy',
        )
        self.assertEqual([], self.find(examine(T4, post_copy=seen)))

    def test_licences_by_series(self) -> None:
        for name, licence in (
            ('T4-2Q', 'vWS'),
            ('T4-2B', 'vPC'),
            ('T4-2A', 'vApps'),
            ('T4-4C', 'AI Enterprise'),
        ):
            self.assertFound(
                examine(T4, enabled=(name,)), 'note', 'licence', licence, name
            )

    def test_problems_of_the_configuration_are_one_finding(self) -> None:
        for severity, expected in (
            (values.Severity.FATAL, 'error'),
            (values.Severity.ERROR, 'error'),
            (values.Severity.WARNING, 'warning'),
        ):
            problems = (
                values.Problem(severity, 'bad-value', 'x', 'y', 'z'),
                values.Problem(
                    values.Severity.WARNING, 'two-sections', 'x', 'y', 'z'
                ),
            )
            self.assertFound(
                examine(T4, enabled=('T4-2Q',), problems=problems),
                expected,
                'configuration-problems',
                '(2)',
                'bad-value, two-sections',
                'nova-vgpu check',
            )

    def test_no_configuration_is_a_note(self) -> None:
        for severity, code in (
            (values.Severity.ERROR, 'no-configuration'),
            (values.Severity.WARNING, 'nothing-enabled'),
        ):
            problem = values.Problem(
                severity, code, 'x', 'Not set.', 'Set it.'
            )
            self.assertFound(
                examine(T4, problems=(problem,)),
                'note',
                'nothing-declared',
                'Not set.',
                'Set it.',
            )


class TestTypeIds(DiagnosisTestCase):
    def test_an_id_in_use_that_means_something_else(self) -> None:
        self.assertFound(
            examine(
                T4,
                enabled=('nvidia-231',),
                remembered=(('nvidia-231', 'GRID P4-1B'),),
            ),
            'error',
            'type-id-changed',
            'was GRID P4-1B on this host before and is GRID T4-2Q now',
            '[devices]enabled_vgpu_types',
            'by name',
        )

    def test_many_others_are_one_note(self) -> None:
        remembered = tuple(
            (t.id, f'GRID P4-{index}Q')
            for index, t in enumerate(boards.T4.types[:10])
        )
        note = self.assertFound(
            examine(T4, enabled=('T4-2Q',), remembered=remembered),
            'note',
            'type-id-changed',
            '(10)',
            'and: 7 more',
        )
        self.assertEqual(4, len(note.evidence))

    def test_a_few_are_named_each(self) -> None:
        for ids in (
            ('nvidia-231',),
            ('nvidia-230', 'nvidia-231', 'nvidia-232'),
        ):
            note = self.assertFound(
                examine(T4, remembered=tuple((i, 'GRID P4-1B') for i in ids)),
                'note',
                'type-id-changed',
                'nvidia-231: GRID P4-1B, now GRID T4-2Q',
            )
            self.assertEqual(len(ids), len(note.evidence))
