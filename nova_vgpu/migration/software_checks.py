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

"""Whether libvirt, QEMU and the kernel of two hosts can migrate vGPUs.

The versions are those that Nova asks for: for mdevs, and for PCI devices that
migrate with a driver of their vendor. Nova asks for no kernel version; its
documentation names the one with the second version of VFIO's migration
protocol, which distributions may have backported.

QEMU has to know what a device writes to the memory of the guest. The device's
driver tells, through the kernel's DMA logging. Since Linux 6.7 its code is
built with IOMMUFD only: ``CONFIG_IOMMUFD_DRIVER``. Without it the migration
fails before the guest is stopped. Only QEMU at the source asks for that: the
one at the destination gets what was written.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import re

from nova_vgpu import values
from nova_vgpu.knowledge import kernels
from nova_vgpu.migration import reasons

#: Nova: MIN_MDEV_LIVEMIG_LIBVIRT_VERSION, MIN_MDEV_LIVEMIG_QEMU_VERSION
MDEV_LIBVIRT = (8, 6, 0)
MDEV_QEMU = (8, 1, 0)
#: Nova: MIN_VFIO_PCI_VARIANT_LIBVIRT_VERSION, MIN_VFIO_PCI_VARIANT_QEMU_...
FUNCTION_LIBVIRT = (10, 0, 0)
FUNCTION_QEMU = (8, 2, 2)
#: The first with version 2 of the protocol.
KERNEL = (5, 18)

# Kernels of Red Hat Enterprise Linux and its relatives.
_BACKPORTING = re.compile(r'\.el[0-9]{1,2}')


def check(
    source: values.MigrationSource, target: values.MigrationTarget
) -> Iterator[values.MigrationReason]:
    """Problems of either host, whatever the GPUs are."""
    has_functions = any(
        device.is_whole or device.framework in values.GIVING_FUNCTIONS
        for device in source.devices
    )
    hosts = ((source.host, source.software), (target.host, target.software))
    for host, software in hosts:
        yield from _check_versions(host, software, has_functions)
        yield from _check_kernel(host, software.kernel)
    yield from _check_dma_logging(source.host, source.software)


def _check_versions(
    host: str, software: values.HostSoftware, has_functions: bool
) -> Iterator[values.MigrationReason]:
    what = 'virtual functions and PCI devices' if has_functions else 'mdevs'
    for name, found, needed, code, unknown in (
        (
            'libvirt',
            software.libvirt,
            FUNCTION_LIBVIRT if has_functions else MDEV_LIBVIRT,
            reasons.Code.LIBVIRT,
            reasons.Code.LIBVIRT_UNKNOWN,
        ),
        (
            'QEMU',
            software.qemu,
            FUNCTION_QEMU if has_functions else MDEV_QEMU,
            reasons.Code.QEMU,
            reasons.Code.QEMU_UNKNOWN,
        ),
    ):
        least = write(needed)
        if found is None:
            yield reasons.unknown(
                unknown, host, f'The version of {name} on {host} is unknown.'
            )
        elif found < needed:
            yield reasons.prevents(
                code,
                host,
                f'{name} {write(found)} on {host} is too old: live migration '
                f'of {what} needs {least}.',
                f'Upgrade {name} on {host} to {least} or newer.',
            )


def _check_kernel(
    host: str, release: str | None
) -> Iterator[values.MigrationReason]:
    version = kernels.parse_release(release) if release is not None else None
    least = write(KERNEL)
    if release is None or version is None:
        yield reasons.unknown(
            reasons.Code.KERNEL_UNKNOWN,
            host,
            f'The kernel of {host} is unknown.',
        )
    elif version < KERNEL and _BACKPORTING.search(release):
        yield reasons.unknown(
            reasons.Code.KERNEL_UNKNOWN,
            host,
            f'Linux {release} on {host} is older than {least}, and its '
            'distribution backports parts of newer ones.',
            'See in the documentation of the distribution whether it '
            'supports live migration of vGPUs (Red Hat: since RHEL 9.4).',
        )
    elif version < KERNEL:
        yield reasons.prevents(
            reasons.Code.KERNEL,
            host,
            f'Linux {release} on {host} is too old: live migration of VFIO '
            f'devices needs {least}.',
            f'Boot {host} with Linux {least} or newer.',
        )


def _check_dma_logging(
    host: str, software: values.HostSoftware
) -> Iterator[values.MigrationReason]:
    if software.dma_logging is None:
        yield reasons.unknown(
            reasons.Code.DMA_LOGGING_UNKNOWN,
            host,
            f'It is unknown whether the kernel of {host} has DMA logging.',
        )
    elif not software.dma_logging:
        yield reasons.prevents(
            reasons.Code.DMA_LOGGING,
            host,
            f'Linux {software.kernel or "(unknown)"} on {host} is built '
            'without DMA logging (CONFIG_IOMMUFD_DRIVER): QEMU cannot see '
            'what a vGPU writes to the memory of its guest.',
            f'Boot {host} with a kernel that has CONFIG_IOMMUFD and '
            'CONFIG_IOMMUFD_DRIVER. The standard kernel of Debian 13 does '
            'not.',
        )


def write(version: Iterable[int]) -> str:
    return '.'.join(map(str, version))
