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

"""Why a GPU, a virtual function or a type cannot be used.

From everything that was read to findings: the worst first, each with its
evidence and cure. A host without problems gets a few notes: the frameworks of
its GPUs, their schedulers, the licences that guests need.

Problems of the configuration are reported by ``check``. Here they are one
finding that refers to it.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.diagnose import host_findings
from nova_vgpu.diagnose import mode_findings
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import mig_problems
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching

# Problems that only report a missing configuration.
_NOTHING_DECLARED = frozenset({'no-configuration', 'nothing-enabled'})
# Problems that have findings of their own.
_TOLD = (
    readiness.OBSTACLES
    | mig_problems.CODES
    | {'unreadable', 'type-id-changed', 'type-memory-lost'}
)
# How many of many are shown.
_EXAMPLES = 3
# States that may be intended.
_ON_PURPOSE = frozenset({'passed-through', 'no-types-ever'})
_PASSTHROUGH_DRIVER = 'vfio-pci'
_PASSTHROUGH_IDS = 'vfio-pci.ids='


def diagnose(examined: values.DoctorInput) -> tuple[values.Finding, ...]:
    """Every finding, in order of severity."""
    found = [
        *host_findings.find(examined),
        *_find_on_gpus(examined),
        *mode_findings.find(examined),
        *_find_type_changes(examined),
        *_find_configuration_problems(examined),
        *mode_findings.find_scheduler(examined),
        *host_findings.find_notes(examined),
    ]
    ranks = list(values.Severity)
    return tuple(sorted(found, key=lambda f: ranks.index(f.severity)))


def _find_on_gpus(
    examined: values.DoctorInput,
) -> Iterator[values.Finding]:
    for fault in examined.host.faults:
        yield values.Finding(
            values.Severity.ERROR,
            'unreadable',
            fault.device,
            f'{fault.device} cannot be read in full.',
            (values.Evidence(fault.source, fault.reason),),
            'See the kernel log about the device; some files need root.',
        )
    for gpu in examined.host.gpus:
        if _is_told_by_plan(examined, gpu):
            continue
        obstacle = readiness.find_obstacle(gpu)
        if obstacle is None:
            yield from _find_vf_findings(gpu)
            continue
        severity = _weigh(examined, gpu, obstacle)
        if severity is not None:
            yield values.Finding(
                severity,
                obstacle.code,
                str(gpu),
                f'GPU {gpu} does not serve vGPUs: {obstacle.finding}.',
                tuple(_see(examined, gpu, obstacle)),
                obstacle.cure,
            )


def _is_told_by_plan(
    examined: values.DoctorInput, gpu: values.PhysicalGPU
) -> bool:
    """Whether the plan tells if its VFs are provisioned.

    It does not if the declared type is not a VF profile.
    """
    if not gpu.vf_profiles or not examined.plan.assignments_of(gpu.name):
        return False
    return not any(
        problem.subject == str(gpu) and problem.code in readiness.OBSTACLES
        for problem in examined.plan.problems
    )


def _weigh(
    examined: values.DoctorInput,
    gpu: values.PhysicalGPU,
    obstacle: readiness.Obstacle,
) -> values.Severity | None:
    if examined.plan.assignments_of(gpu.name):
        return values.Severity.ERROR
    if not capabilities.makes_vgpus(gpu) and gpu.sriov is None:
        return None  # usually the graphics of the mainboard
    if obstacle.code in _ON_PURPOSE:
        return values.Severity.NOTE
    if examined.is_wanted(gpu):
        return values.Severity.ERROR
    return values.Severity.WARNING


def _see(
    examined: values.DoctorInput,
    gpu: values.PhysicalGPU,
    obstacle: readiness.Obstacle,
) -> Iterator[values.Evidence]:
    device = f'/sys/bus/pci/devices/{gpu}'
    if obstacle.code == 'vfs-off':
        total = gpu.sriov.total if gpu.sriov else 0
        yield values.Evidence(f'{device}/sriov_totalvfs', str(total))
        yield values.Evidence(f'{device}/virtfn*', 'none')
    elif gpu.vfs:
        drivers = sorted({vf.driver or 'none' for vf in gpu.vfs})
        yield values.Evidence(
            f'{device}/virtfn*/driver', f'{", ".join(drivers)}'
        )
    else:
        yield values.Evidence(f'{device}/driver', gpu.driver or 'none')
    if obstacle.code == 'passed-through':
        yield from _find_passthrough_ids(examined, gpu)
    if obstacle.code == 'no-types-yet':
        mode = examined.modes.of(gpu.address).mig if examined.modes else None
        if mode is not None and mode.current:
            yield values.Evidence('NVML, MIG mode', 'on')


def _find_passthrough_ids(
    examined: values.DoctorInput, gpu: values.PhysicalGPU
) -> Iterator[values.Evidence]:
    """The kernel parameter that reserves the GPU for passthrough."""
    around = examined.surroundings
    if around is None or around.command_line is None or gpu.ids is None:
        return
    for word in around.command_line.value.split():
        if word.startswith(_PASSTHROUGH_IDS) and str(gpu.ids) in word.lower():
            yield values.Evidence(around.command_line.source, word)


def _find_vf_findings(gpu: values.PhysicalGPU) -> Iterator[values.Finding]:
    """Problems of some functions of a working GPU."""
    astray = [
        vf
        for vf in gpu.vfs
        if vf.driver in (None, _PASSTHROUGH_DRIVER)
        and not (vf.offers or vf.vgpus or vf.vendor_vfio)
    ]
    # libvirt does not show every driver; then the GPU has none either.
    if astray and gpu.driver is not None:
        yield values.Finding(
            values.Severity.WARNING,
            'vfs-astray',
            str(gpu),
            f'Virtual functions of GPU {gpu} cannot have vGPUs '
            f'({len(astray)} of {len(gpu.vfs)}): they are not bound to its '
            'driver.',
            tuple(
                values.Evidence(
                    f'/sys/bus/pci/devices/{vf.address}/driver',
                    vf.driver or 'none',
                )
                for vf in astray
            ),
            f'Bind them to {gpu.driver} again. libvirt unbinds a function '
            "that a guest uses with managed='yes'.",
        )
    if gpu.sriov is not None and 0 < len(gpu.vfs) < gpu.sriov.total:
        yield _vfs_partly_on(gpu, gpu.sriov.total)


def _vfs_partly_on(gpu: values.PhysicalGPU, total: int) -> values.Finding:
    return values.Finding(
        values.Severity.NOTE,
        'vfs-partly-on',
        str(gpu),
        f'GPU {gpu} has {len(gpu.vfs)} of {total} virtual functions, which '
        'limits types of which more would fit.',
        (
            values.Evidence(
                f'/sys/bus/pci/devices/{gpu}/sriov_totalvfs', str(total)
            ),
        ),
        'If that is not intended, enable all of them while no vGPU is in use.',
    )


def _find_type_changes(
    examined: values.DoctorInput,
) -> Iterator[values.Finding]:
    changes = type_matching.find_changes(
        examined.remembered, examined.host, examined.declaration
    )
    for change in changes:
        if change.option is not None:
            problem = type_matching.make_change_problem(change)
            yield values.Finding(
                values.Severity.ERROR,
                'type-id-changed',
                problem.subject,
                problem.message,
                (
                    values.Evidence(
                        'types.json', f'{change.id} = {change.old}'
                    ),
                    values.Evidence('host', f'{change.id} = {change.new}'),
                ),
                problem.cure,
            )
    others = [change for change in changes if change.option is None]
    if others:
        yield _other_ids_changed(others)


def _other_ids_changed(
    changes: list[type_matching.TypeChange],
) -> values.Finding:
    more = len(changes) - _EXAMPLES
    examples = [
        values.Evidence(change.id, f'{change.old}, now {change.new}')
        for change in changes[:_EXAMPLES]
    ]
    if more > 0:
        examples.append(values.Evidence('and', f'{more} more'))
    return values.Finding(
        values.Severity.NOTE,
        'type-id-changed',
        'types',
        f'Type ids that nova.conf does not use have other names than at the '
        f'last run ({len(changes)}).',
        tuple(examples),
        'Use names of types where possible. Definitions of mdevctl contain '
        'ids: check them with "mdevctl list --defined".',
    )


def _find_configuration_problems(
    examined: values.DoctorInput,
) -> Iterator[values.Finding]:
    left = [p for p in examined.plan.problems if p.code not in _TOLD]
    nothing = [p for p in left if p.code in _NOTHING_DECLARED]
    for problem in nothing:
        yield values.Finding(
            values.Severity.NOTE,
            'nothing-declared',
            problem.subject,
            'No type is enabled: every GPU is checked as one that is to serve '
            'vGPUs.',
            (values.Evidence('nova.conf', problem.message),),
            problem.cure,
        )
    left = [p for p in left if p not in nothing]
    if not left:
        return
    codes = dict.fromkeys(problem.code for problem in left)
    yield values.Finding(
        values.Severity.WARNING
        if all(p.severity is values.Severity.WARNING for p in left)
        else values.Severity.ERROR,
        'configuration-problems',
        'nova.conf',
        f'The configuration has problems ({len(left)}).',
        (values.Evidence('nova.conf', ', '.join(codes)),),
        'See "nova-vgpu check".',
    )
