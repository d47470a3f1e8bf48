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

"""Why a GPU cannot be passed through to a server as a whole.

The kernel isolates IOMMU groups, not devices. QEMU gets a GPU only if no
driver of the host is bound to any other device of its group; bridges do not
count (``vfio_dev_viable`` in drivers/vfio, and the DMA owner of a group since
Linux 5.19). libvirt takes a GPU from its driver when a server starts and gives
it back later (``managed``), but it does so for the GPU alone, not for its
audio or USB function. Those must be without a driver or bound to vfio-pci, and
no server gets them.

For Nova, a GPU with SR-IOV is a physical function (``type-PF``). It matches
the same ``[pci]device_spec`` as its virtual functions, and Nova refuses to
track both in Placement (``PlacementPciDependentDeviceException``): they have
to be off.
"""

from collections.abc import Iterator
import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import vendors
from nova_vgpu.plan import readiness

Obstacle = readiness.Obstacle

_BRIDGE = 0x06
# PCI Code and ID Assignment Specification: base class, or class.
_KINDS = {
    0x0403: 'audio',
    0x0C03: 'USB',
    0x0C80: 'serial bus',
    0x01: 'storage',
    0x02: 'network',
    0x03: 'display',
    0x12: 'accelerator',
}
_BIND = 'driverctl set-override {function} vfio-pci'


def find_obstacles(
    gpu: values.PhysicalGPU, read: values.IsolationRead, plan: values.Plan
) -> Iterator[Obstacle]:
    """Everything that is in the way of passing a GPU through."""
    isolation = read.of(gpu)
    yield from _find_declared(gpu, plan)
    yield from _find_in_use(gpu, isolation)
    if isolation.unknown_because is not None:
        yield Obstacle(
            'isolation-unknown',
            f'its IOMMU group is unknown: {isolation.unknown_because}',
            'Passthrough is only written for a GPU that could be checked.',
        )
        return
    yield from _find_display(isolation)
    if isolation.group is None:
        yield _without_group(read)
    else:
        yield from _find_shared(gpu, isolation)


def find_driver_warning(gpu: values.PhysicalGPU) -> str | None:
    """What may happen when libvirt takes the GPU from its driver."""
    if gpu.driver is None or readiness.is_passed_through(gpu):
        return None
    return (
        f'GPU {gpu} is bound to {gpu.driver}. libvirt unbinds it when a '
        'server starts. That hangs while a process of the host has the GPU '
        'open, such as nvidia-persistenced. Bind the GPU to vfio-pci when the '
        f'host boots: {_BIND.format(function=gpu)}'
    )


def _find_declared(
    gpu: values.PhysicalGPU, plan: values.Plan
) -> Iterator[Obstacle]:
    for assigned in plan.assignments_of(gpu.name)[:1]:
        declared = assigned.declared
        if assigned.reason is values.Reason.LISTED:
            option = declared.option('device_addresses')
            yield Obstacle(
                'declared-for-vgpus',
                f'{option} declares it for vGPUs of {declared.name}',
                f'Remove it from {option} first.',
            )
        else:
            yield Obstacle(
                'declared-for-vgpus',
                f'it serves vGPUs of {declared.name}, the first enabled type, '
                'because no type lists it',
                'Set [devices]unlisted_gpus = ignore and list the GPUs that '
                'serve vGPUs, or request both in one command (--type).',
            )


def _find_in_use(
    gpu: values.PhysicalGPU, isolation: values.GPUIsolation
) -> Iterator[Obstacle]:
    if gpu.all_vgpus:
        yield Obstacle(
            'has-vgpus',
            f'it has vGPUs ({len(gpu.all_vgpus)})',
            f'Remove them ("nova-vgpu device list --gpu {gpu}" shows them), '
            'or choose another GPU.',
        )
    if gpu.vfs:
        yield Obstacle(
            'vfs-on',
            f'its VFs are enabled ({len(gpu.vfs)}), and Nova does not track a '
            'GPU together with its VFs',
            f'Disable them: nova-vgpu sriov disable {gpu}',
        )
    if isolation.processes:
        pids = ', '.join(map(str, isolation.processes))
        yield Obstacle(
            'in-use',
            f'processes of this host use it: {pids}',
            f'Stop them (nvidia-smi -i {gpu} shows them).',
        )


def _find_display(isolation: values.GPUIsolation) -> Iterator[Obstacle]:
    if isolation.is_display:
        yield Obstacle(
            'display',
            'it is the display of this host (boot_vga, or a framebuffer)',
            "Make the board's own graphics the primary display in the "
            'firmware setup, and keep framebuffer drivers off the GPU '
            '(video=efifb:off).',
        )


def _without_group(read: values.IsolationRead) -> Obstacle:
    if read.has_iommu:
        return Obstacle(
            'no-iommu-group',
            'it has no IOMMU group, though other devices of this host have',
            'Put it into a slot behind the IOMMU.',
        )
    return Obstacle(
        'no-iommu',
        'the IOMMU of this host is off: /sys/kernel/iommu_groups is empty',
        'Turn on VT-d or AMD-Vi (SVM, IOMMU) in the firmware setup, add '
        'intel_iommu=on to the kernel command line on Intel, and reboot.',
    )


def _find_shared(
    gpu: values.PhysicalGPU, isolation: values.GPUIsolation
) -> Iterator[Obstacle]:
    others = [o for o in isolation.others if o.pci_class >> 16 != _BRIDGE]
    own = [other for other in others if _is_own(gpu, other)]
    bound = [o for o in own if o.driver not in (None, readiness.VFIO_DRIVER)]
    foreign = [other for other in others if other not in own]
    if foreign:
        yield Obstacle(
            'group-shared',
            f'its IOMMU group {isolation.group} also has '
            f'{", ".join(map(_describe, foreign))}. The kernel gives a group '
            'to one server as a whole',
            'Put the card into another slot, or turn on ACS for its slot in '
            'the firmware setup.',
        )
    if bound:
        commands = '; '.join(
            _BIND.format(function=other.address) for other in bound
        )
        yield Obstacle(
            'group-bound',
            f'{", ".join(map(_describe, bound))} of the same card is in its '
            f'IOMMU group {isolation.group}, and libvirt does not unbind it',
            f'Bind it to vfio-pci when the host boots: {commands}',
        )


def _is_own(gpu: values.PhysicalGPU, other: values.PciFunction) -> bool:
    """Whether a function that is not a GPU is on the GPU's card."""
    if gpu.address is None or gpu.ids is None:
        return False
    in_its_place = dataclasses.replace(
        other.address, function=gpu.address.function
    )
    return in_its_place == gpu.address and not vendors.is_gpu(
        gpu.ids.vendor, other.pci_class
    )


def _describe(other: values.PciFunction) -> str:
    kind = _KINDS.get(other.pci_class >> 8) or _KINDS.get(
        other.pci_class >> 16, f'class {other.pci_class:06x}'
    )
    driver = f'driver {other.driver}' if other.driver else 'no driver'
    return f'{other.address} ({kind}, {driver})'
