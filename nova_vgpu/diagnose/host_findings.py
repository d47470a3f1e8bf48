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

"""Findings about the environment of the GPUs.

A host that is only a sysfs tree has no environment, and gets none of these
findings.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities

_NVIDIA_DRIVER = 'nvidia'
_TYPES = {
    values.Framework.MDEV: 'mdev_supported_types of the GPU',
    values.Framework.MDEV_ON_VFS: 'mdev_supported_types of its VFs',
    values.Framework.VENDOR_VFIO: 'nvidia/creatable_vgpu_types of its VFs',
}
_MDEV = (values.Framework.MDEV, values.Framework.MDEV_ON_VFS)
# Kernel parameters that turn the IOMMU off. (Linux kernel,
# Documentation/admin-guide/kernel-parameters.txt)
_IOMMU_OFF = frozenset({'intel_iommu=off', 'amd_iommu=off', 'iommu=off'})


def find(examined: values.DoctorInput) -> Iterator[values.Finding]:
    """Problems of the whole host."""
    around = examined.surroundings
    if around is not None:
        for fault in around.faults:
            yield values.Finding(
                values.Severity.WARNING,
                'unreadable',
                fault.device,
                f'{fault.source} cannot be read.',
                (values.Evidence(fault.source, fault.reason),),
                'Run the command as root.',
            )
        yield from _find_iommu(examined, around)
        yield from _find_manager(examined, around)
        yield from _find_mdevctl(examined, around)
    if examined.post_copy is not None and examined.declaration.types:
        yield _post_copy(examined.post_copy)


def find_notes(examined: values.DoctorInput) -> Iterator[values.Finding]:
    """Notes about a host without problems."""
    yield from _find_frameworks(examined)
    yield from _find_licences(examined)
    yield from _find_silence(examined)


def _find_iommu(
    examined: values.DoctorInput, around: values.Environment
) -> Iterator[values.Finding]:
    """VFs need it; the GPU's driver without SR-IOV does not."""
    concerned = [
        gpu
        for gpu in examined.host.gpus
        if gpu.sriov is not None and capabilities.makes_vgpus(gpu)
    ]
    if not concerned or around.iommus is None or around.iommus:
        return
    words = around.command_line.value.split() if around.command_line else []
    off = [word for word in words if word in _IOMMU_OFF]
    yield values.Finding(
        values.Severity.ERROR
        if any(map(examined.is_wanted, concerned))
        else values.Severity.WARNING,
        'iommu-off',
        'IOMMU',
        'The kernel uses no IOMMU. Virtual functions cannot be assigned to '
        'servers without it.',
        tuple(_see_no_iommu(around)),
        f'Remove {" and ".join(off)} from the kernel command line, and reboot.'
        if off
        else 'Turn on VT-d or AMD-Vi in the firmware, add intel_iommu=on to '
        'the kernel command line of a host with Intel processors, and reboot.',
    )


def _see_no_iommu(around: values.Environment) -> Iterator[values.Evidence]:
    yield values.Evidence('/sys/class/iommu', 'empty')
    if around.iommu_groups is not None:
        yield values.Evidence(
            '/sys/kernel/iommu_groups', str(around.iommu_groups)
        )
    if around.command_line is not None:
        words = around.command_line.value.split()
        shown = [w for w in words if w.partition('=')[0].endswith('iommu')]
        yield values.Evidence(
            around.command_line.source,
            ' '.join(shown) or 'no parameter of the IOMMU',
        )


def _find_manager(
    examined: values.DoctorInput, around: values.Environment
) -> Iterator[values.Finding]:
    concerned = [
        gpu
        for gpu in examined.host.gpus
        if gpu.driver == _NVIDIA_DRIVER and capabilities.makes_vgpus(gpu)
    ]
    if not concerned or around.vgpu_managers is None or around.vgpu_managers:
        return
    yield values.Finding(
        values.Severity.ERROR
        if any(map(examined.is_wanted, concerned))
        else values.Severity.WARNING,
        'vgpu-manager-not-running',
        'vGPU manager',
        'The vGPU manager of NVIDIA is not running. vGPUs do not start '
        'without it, and types may be missing.',
        (values.Evidence('/proc/*/comm', 'no nvidia-vgpu-mgr'),),
        'Start it: systemctl start nvidia-vgpud nvidia-vgpu-mgr. If it ends '
        'at once, see its log: journalctl -u nvidia-vgpu-mgr',
    )


def _find_mdevctl(
    examined: values.DoctorInput, around: values.Environment
) -> Iterator[values.Finding]:
    if not any(gpu.framework in _MDEV for gpu in examined.host.gpus):
        return
    if not around.mdevctl:
        yield values.Finding(
            values.Severity.ERROR,
            'mdevctl-missing',
            'mdevctl',
            'mdevctl is not installed. libvirt creates mediated devices with '
            'it.',
            (
                values.Evidence('/usr/sbin/mdevctl', 'not found'),
                values.Evidence('/usr/bin/mdevctl', 'not found'),
            ),
            'Install the package mdevctl.',
        )
    elif not any(call.is_there for call in around.udev_calls):
        yield _mdevctl_not_called(around)


def _mdevctl_not_called(around: values.Environment) -> values.Finding:
    there = tuple(values.Evidence(path, 'found') for path in around.mdevctl)
    calls = tuple(
        values.Evidence(
            call.rule, f'calls {call.program}, which does not exist'
        )
        for call in dict.fromkeys(around.udev_calls)
    )
    return values.Finding(
        values.Severity.WARNING,
        'mdevctl-not-called',
        'mdevctl',
        'No rule of udev calls the installed mdevctl. Defined mediated '
        'devices do not start with the host.'
        if calls
        else 'No rule of udev calls mdevctl. Defined mediated devices do not '
        'start with the host.',
        (*calls, *there),
        f'Link it: ln -s {around.mdevctl[0]} {around.udev_calls[0].program}'
        if calls
        else 'Reinstall the package mdevctl of your distribution, which '
        'contains the rule.',
    )


def _post_copy(seen: values.Evidence) -> values.Finding:
    # QEMU, docs/devel/migration/vfio.rst, "Postcopy".
    option = '[libvirt]live_migration_permit_post_copy'
    return values.Finding(
        values.Severity.WARNING,
        'post-copy',
        option,
        f'{option} is on. QEMU does not migrate a guest with a vGPU by '
        'post-copy: live migrations of such servers fail.',
        (seen,),
        'Turn it off on hosts with vGPUs.',
    )


def _find_frameworks(
    examined: values.DoctorInput,
) -> Iterator[values.Finding]:
    using: dict[tuple[values.Framework, str], list[values.PhysicalGPU]] = {}
    for gpu in examined.host.gpus:
        if gpu.framework is not None and not gpu.is_other_device:
            model = capabilities.model_of(gpu) or str(gpu.ids or gpu)
            using.setdefault((gpu.framework, model), []).append(gpu)
    around = examined.surroundings
    for (framework, _), gpus in using.items():
        version = around.driver_version if around is not None else None
        if any(gpu.driver != _NVIDIA_DRIVER for gpu in gpus):
            version = None
        names = ', '.join(map(str, gpus))
        types = {t.id for gpu in gpus for t in gpu.types}
        seen = values.Evidence(_TYPES[framework], f'{len(types)} types')
        yield values.Finding(
            values.Severity.NOTE,
            'framework',
            names,
            f'Framework of GPU {names}: {framework.value}.',
            (seen, version) if version is not None else (seen,),
        )


def _find_licences(examined: values.DoctorInput) -> Iterator[values.Finding]:
    needed: dict[str, list[str]] = {}
    shown = {gpu.name for gpu in examined.host.gpus}
    for assigned in examined.plan.assignments:
        vendor = capabilities.vendor_of(assigned.gpu)
        if (
            assigned.gpu.name not in shown
            or assigned.type is None
            or vendor is None
        ):
            continue
        licence = vendor.licence_of(assigned.type.name or '')
        if licence is not None:
            short = capabilities.short_name(assigned.type)
            needed.setdefault(licence, []).append(short)
    for licence, types in needed.items():
        names = ', '.join(dict.fromkeys(types))
        yield values.Finding(
            values.Severity.NOTE,
            'licence',
            names,
            f'Guests with a vGPU of {names} need a licence: {licence}.',
            (values.Evidence('plan', names),),
            "The guest's driver gets it from a licence server. Without one "
            'the vGPU is slowed down after a while.',
        )


def _find_silence(examined: values.DoctorInput) -> Iterator[values.Finding]:
    modes = examined.modes
    if modes is None or modes.unknown_because is None:
        return
    if any(
        gpu.driver == _NVIDIA_DRIVER and capabilities.makes_vgpus(gpu)
        for gpu in examined.host.gpus
    ):
        yield values.Finding(
            values.Severity.NOTE,
            'nvml-silent',
            'NVML',
            'ECC, MIG and heterogeneous mode and the current scheduler are '
            'unknown.',
            (values.Evidence('NVML', modes.unknown_because),),
            "pip install 'nova-vgpu[nvml]', or install python3-pynvml or the "
            'driver if it is missing.',
        )
