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

"""Whether NVIDIA's drivers of two hosts, and their GPUs, are alike enough.

The version of a vGPU, which the drivers of guest and host agree on, has to be
in the range that the driver of the destination takes. NVML tells both. Without
it only equal drivers are known to fit: what else does depends on the release
of the driver and of the hypervisor. The ECC mode has to be the same.
"""

from collections.abc import Iterator
from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.migration import reasons

_Places = Sequence[values.MigrationPlace]


def check(
    source: values.MigrationSource,
    device: values.MovingDevice,
    target: values.MigrationTarget,
    places: _Places,
) -> Iterator[values.MigrationReason]:
    """Problems of a device of NVIDIA and the GPUs that serve its type."""
    yield from _compare_drivers(source, device, target, places)
    yield from _compare_ecc(source, device, target, places)


def _compare_drivers(
    source: values.MigrationSource,
    device: values.MovingDevice,
    target: values.MigrationTarget,
    places: _Places,
) -> Iterator[values.MigrationReason]:
    ranges = [place.versions for place in places]
    if device.versions and None not in ranges:
        if not any(_takes_all(r, device.versions) for r in ranges if r):
            yield _find_driver_misfit(source, device, target, ranges)
        return
    here, there = source.software.driver, target.software.driver
    if here is not None and here == there:
        return
    if here is None or there is None:
        hosts = [
            host
            for host, version in ((source.host, here), (target.host, there))
            if version is None
        ]
        text = f"The version of NVIDIA's driver on {' and '.join(hosts)} is "
        yield reasons.unknown(
            reasons.Code.DRIVER_UNKNOWN, hosts[0], f'{text}unknown.'
        )
        return
    is_branch = _branch(here) == _branch(there)
    yield reasons.unknown(
        reasons.Code.DRIVER_UNKNOWN,
        target.host,
        f"NVIDIA's driver is {here} on {source.host} and {there} on "
        f'{target.host}, '
        + ('of one branch. ' if is_branch else 'of another branch. ')
        + 'Whether it takes the vGPU is unknown.',
        'Use the same driver on both hosts. Whether others fit depends on '
        f"NVIDIA's release notes and the hypervisor. {reasons.ASK_NVML}",
    )


def _takes_all(accepted: tuple[int, int], versions: Sequence[int]) -> bool:
    return all(accepted[0] <= found <= accepted[1] for found in versions)


def _find_driver_misfit(
    source: values.MigrationSource,
    device: values.MovingDevice,
    target: values.MigrationTarget,
    ranges: Sequence[tuple[int, int] | None],
) -> values.MigrationReason:
    here = source.software.driver or 'unknown'
    there = target.software.driver or 'unknown'
    has = ', '.join(sorted({str(found) for found in device.versions}))
    takes = ', '.join(sorted({f'{r[0]} to {r[1]}' for r in ranges if r}))
    return reasons.prevents(
        reasons.Code.DRIVER,
        target.host,
        f"NVIDIA's driver on {target.host} ({there}) does not take the vGPU "
        f'from {source.host} ({here}): the vGPU has version {has}, and the '
        f'driver takes {takes}.',
        'Use the same driver on both hosts, or one in the guest that fits '
        'both.',
    )


def _branch(version: str) -> str:
    return version.partition('.')[0]


def _compare_ecc(
    source: values.MigrationSource,
    device: values.MovingDevice,
    target: values.MigrationTarget,
    places: _Places,
) -> Iterator[values.MigrationReason]:
    modes = [place.ecc for place in places]
    if device.ecc is not None and device.ecc in modes:
        return
    if device.ecc is None or None in modes:
        host = source.host if device.ecc is None else target.host
        yield reasons.unknown(
            reasons.Code.ECC_UNKNOWN,
            host,
            f'The ECC mode of the GPUs of {host} that serve {device.type} is '
            'unknown.',
        )
        return
    yield reasons.prevents(
        reasons.Code.ECC,
        target.host,
        f'ECC is {_on(device.ecc)} on GPU {device.gpu} of {source.host}, and '
        f'{_on(not device.ecc)} on the GPUs of {target.host} that serve '
        f'{device.type}.',
        'Set the same ECC mode on both (nvidia-smi -e 0 or 1), which needs a '
        'reset of the GPU without vGPUs.',
    )


def _on(is_on: bool) -> str:
    return 'enabled' if is_on else 'disabled'
