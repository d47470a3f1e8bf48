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

"""Whether the vGPUs of a server find their like on another host.

Types are compared by their names. Ids are those of a release of the vendor's
driver: the same id can be another type on another host.

A GPU of the destination takes a device if it serves its type, in a framework
of the same kind, with the same ECC mode, and if NVML does not rule it out.
Only what none of them fulfils is a reason: of GPUs that differ, Nova's
scheduler may choose any.
"""

from collections.abc import Iterator
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.migration import driver_checks
from nova_vgpu.migration import reasons

_Places = Sequence[values.MigrationPlace]
_MDEVS = frozenset({values.Framework.MDEV, values.Framework.MDEV_ON_VFS})


def check(
    source: values.MigrationSource, target: values.MigrationTarget
) -> Iterator[values.MigrationReason]:
    """What a server has, compared with what the other host has."""
    for device in source.devices:
        if device.is_whole:
            yield from _check_whole(source, device)
        else:
            yield from _check_device(source, device)
        if device.type is None and not device.is_whole:
            yield reasons.unknown(
                reasons.Code.TYPE_UNKNOWN,
                source.host,
                f'The type of {_name(source, device)} is unknown: its '
                'provider has no trait of a type.',
                'Run nova-vgpu provider sync on the host.',
            )
            continue
        places = find_places(device, target.places)
        if places:
            yield from _compare(source, device, target, places)
        else:
            yield _find_missing(device, target)


def find_places(device: values.MovingDevice, places: _Places) -> _Places:
    """The GPUs that serve the type of a device, full or not."""
    return [
        place
        for place in places
        if place.is_whole == device.is_whole
        and (device.is_whole or place.type == device.type)
        and device.resource_class in (None, place.resource_class)
    ]


def _find_missing(
    device: values.MovingDevice, target: values.MigrationTarget
) -> values.MigrationReason:
    what = f'vGPUs of type {device.type}'
    if device.is_whole:
        what = f'GPUs of {device.resource_class}'
    elif any(place.type == device.type for place in target.places):
        what += f' as {device.resource_class}'
    served = sorted({p.type for p in target.places if p.type is not None})
    listed = f': it serves {", ".join(served)}' if served else ''
    return reasons.prevents(
        reasons.Code.TYPE_MISSING,
        target.host,
        f'{target.host} does not serve {what}{listed}.',
        f'Serve it there too ([devices]enabled_vgpu_types of {target.host}), '
        'or choose another host.',
    )


def _check_whole(
    source: values.MigrationSource, device: values.MovingDevice
) -> Iterator[values.MigrationReason]:
    option = 'live_migratable in [pci]device_spec and in the [pci]alias'
    if device.may_migrate is False:
        yield reasons.prevents(
            reasons.Code.PASSTHROUGH,
            source.host,
            f'{_name(source, device)} is passed through as a whole, and not '
            'declared as able to migrate.',
            f'If a driver of its vendor can save and load it, set {option}. '
            'Otherwise move the server with openstack server migrate.',
        )
    else:
        yield reasons.unknown(
            reasons.Code.PASSTHROUGH_ALIAS,
            source.host,
            f'{_name(source, device)} is passed through as a whole. Whether '
            'the server got it by an alias with live_migratable is unknown.',
            f'Check {option} of its flavor.',
        )


def _check_device(
    source: values.MigrationSource, device: values.MovingDevice
) -> Iterator[values.MigrationReason]:
    """Of the device alone, wherever it is to go."""
    name = _name(source, device)
    if device.can_migrate is False:
        yield reasons.prevents(
            reasons.Code.DEVICE,
            source.host,
            f'The vGPU on {name} cannot migrate, by what its driver tells.',
            'Move the server with openstack server migrate, which stops it. '
            "NVIDIA's documentation lists what rules live migration out: the "
            'GPU, unified memory, debuggers and profilers in the guest.',
        )
    elif device.can_migrate is None:
        yield reasons.unknown(
            reasons.Code.DEVICE_UNKNOWN,
            source.host,
            f'It is unknown whether the vGPU on {name} can migrate.',
            reasons.ASK_NVML
            if device.is_nvidia
            else "See the documentation of the GPU's vendor.",
        )


def _compare(
    source: values.MigrationSource,
    device: values.MovingDevice,
    target: values.MigrationTarget,
    places: _Places,
) -> Iterator[values.MigrationReason]:
    if device.is_whole:
        if all(place.may_migrate is False for place in places):
            yield reasons.prevents(
                reasons.Code.PASSTHROUGH,
                target.host,
                f'No GPU of {device.resource_class} on {target.host} is '
                'declared as able to migrate.',
                f'Set live_migratable in [pci]device_spec of {target.host}.',
            )
        return
    yield from _compare_frameworks(source, device, target, places)
    if not device.is_nvidia:
        return
    yield from driver_checks.check(source, device, target, places)
    if all(place.can_migrate is False for place in places):
        yield reasons.prevents(
            reasons.Code.DEVICE,
            target.host,
            f'No GPU of {target.host} that serves {device.type} can take a '
            'vGPU that migrates, by what its driver tells.',
            'Choose another host.',
        )


def _compare_frameworks(
    source: values.MigrationSource,
    device: values.MovingDevice,
    target: values.MigrationTarget,
    places: _Places,
) -> Iterator[values.MigrationReason]:
    if device.framework is None:
        yield reasons.unknown(
            reasons.Code.FRAMEWORK_UNKNOWN,
            source.host,
            f'The framework of {_name(source, device)} is unknown.',
        )
        return
    wanted = _kind(device.framework)
    fits = [p.framework and _kind(p.framework) == wanted for p in places]
    if any(fits):
        return
    if None in fits:
        yield reasons.unknown(
            reasons.Code.FRAMEWORK_UNKNOWN,
            target.host,
            f'The framework in which {target.host} serves {device.type} is '
            'unknown.',
        )
        return
    others = sorted({p.framework.value for p in places if p.framework})
    yield reasons.prevents(
        reasons.Code.FRAMEWORK,
        target.host,
        f'{_name(source, device)} has its vGPU as {device.framework.value}, '
        f'and {target.host} serves {device.type} as {", ".join(others)}.',
        'The kernel and the driver of the host decide on the framework: use '
        'the same on both hosts.',
    )


def _kind(framework: values.Framework) -> values.Framework:
    """An mdev is one wherever it is created."""
    return values.Framework.MDEV if framework in _MDEVS else framework


def _name(source: values.MigrationSource, device: values.MovingDevice) -> str:
    return f'GPU {device.gpu} of {source.host}'
