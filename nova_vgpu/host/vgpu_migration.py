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

"""What NVML tells about the migration of vGPUs.

NVIDIA's driver tells of a GPU whether its vGPUs can migrate, and the range of
versions of vGPUs that it takes; of the vGPU of a running guest, whether it can
migrate, its version, and the size of its state. The version is chosen by the
drivers of the guest and the host together. ``nvmlGetVgpuCompatibility``
compares the two on one host; here they are of two hosts.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import typing

from nova_vgpu import values
from nova_vgpu.host import guest_drivers
from nova_vgpu.host import nvml

# nvml.h: NVML_VGPU_VIRTUALIZATION_CAP_MIGRATION and
# NVML_VGPU_PGPU_VIRTUALIZATION_CAP_MIGRATION, both bit 0.
_MIGRATION = 1


def read_migration(host: values.Host) -> tuple[values.GPUMigration, ...]:
    """A value for each GPU that NVML knows."""
    addresses = nvml.list_addresses(host)
    if not addresses:
        return ()
    try:
        return nvml.use(
            lambda library: tuple(
                _read_gpu(library, address) for address in addresses
            )
        )
    except nvml.UnavailableError:
        return ()


def _read_gpu(
    library: nvml.Library, address: values.PciAddress
) -> values.GPUMigration:
    handle = library.find_gpu(address)
    if handle is None:
        return values.GPUMigration(address)
    metadata = library.ask('nvmlDeviceGetVgpuMetadata', _same, handle)
    vgpus = library.ask('nvmlDeviceGetActiveVgpus', list, handle) or []
    return values.GPUMigration(
        address,
        _can_migrate(metadata and metadata.pgpuVirtualizationCaps),
        _parse_range(metadata.hostSupportedVgpuRange) if metadata else None,
        tuple(_read_vgpus(library, vgpus)),
    )


def _read_vgpus(
    library: nvml.Library, vgpus: Iterable[typing.Any]
) -> Iterator[values.VGPUMigration]:
    for vgpu in vgpus:
        server = guest_drivers.find_server(library, vgpu)
        if server is None:
            continue
        metadata = library.ask('nvmlVgpuInstanceGetMetadata', _same, vgpu)
        yield values.VGPUMigration(
            guest_drivers.find_name(library, vgpu),
            server,
            _can_migrate(metadata and metadata.vgpuVirtualizationCaps),
            # 0 until the driver of the guest is loaded.
            (metadata.guestVgpuVersion or None) if metadata else None,
            library.ask(
                'nvmlVgpuInstanceGetRuntimeStateSize',
                lambda state: int(state.size),
                vgpu,
            ),
        )


def _same(answer: typing.Any) -> typing.Any:
    return answer


def _can_migrate(bits: int | None) -> bool | None:
    return None if bits is None else bool(bits & _MIGRATION)


def _parse_range(found: typing.Any) -> tuple[int, int] | None:
    """None if the driver fills it with zeros."""
    if not found.maxVersion:
        return None
    return int(found.minVersion), int(found.maxVersion)
