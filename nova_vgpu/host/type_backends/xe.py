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

"""The back-end for Intel's SR-IOV, where the kernel provisions the functions.

::

    <GPU>/sriov_admin/vf<N>/profile/
        vram_quota                      bytes; since Linux 7.0, discrete GPUs
        exec_quantum_ms                 since Linux 6.19
        preempt_timeout_us

N counts from 1 to the number of virtual functions that the GPU can have,
enabled or not. Without quotas the driver provisions all functions equally when
they are enabled. A quota may be written before that; one that is not 0
keeps the driver from choosing, and all are released when the functions are
disabled. Kernels without ``sriov_admin``, and i915, do nothing else.
(Linux kernel, Documentation/ABI/testing/sysfs-driver-intel-xe-sriov;
drivers/gpu/drm/xe/xe_sriov_pf_provision.c.)
"""

import dataclasses
import errno

from nova_vgpu import values
from nova_vgpu.host import files

#: The drivers that provision virtual functions.
DRIVERS = frozenset({'xe', 'i915'})

_ADMIN = 'sriov_admin'
#: The file of each setting, and what one unit of it is there.
_FILES = {
    'vram_mib': ('vram_quota', 1 << 20),
    'exec_quantum_ms': ('exec_quantum_ms', 1),
    'preempt_timeout_us': ('preempt_timeout_us', 1),
}
_MOST_DIGITS = 15
_ROUNDING_PART = 4


class XeProfiles:
    """The profiles of the virtual functions of GPUs."""

    def __init__(self, tree: files.Files) -> None:
        self._tree = tree

    def complete(
        self, gpu: values.PhysicalGPU, faults: list[values.ReadFault]
    ) -> values.PhysicalGPU:
        """The GPU with the profiles of its VFs, if there are any."""
        if (
            gpu.address is None
            or gpu.sriov is None
            or gpu.driver not in DRIVERS
        ):
            return gpu
        found = {}
        for setting in _FILES:
            try:
                found[setting] = tuple(
                    self._read(gpu.address, number, setting)
                    for number in range(1, gpu.sriov.total + 1)
                )
            except files.Unreadable as error:
                if not error.gone:
                    faults.append(error.as_fault(gpu.name))
        profiles = values.VFProfiles(
            found.get('vram_mib', ()),
            found.get('exec_quantum_ms', ()),
            found.get('preempt_timeout_us', ()),
        )
        return dataclasses.replace(gpu, vf_profiles=profiles)

    def set_profile(
        self, gpu: values.PciAddress, vf: int, setting: str, number: int
    ) -> None:
        """Set one setting of a virtual function, and read it back.

        :param vf: counts the virtual functions from 1.
        :raises OSError: if the kernel refuses, or shows another one.
        """
        name, unit = _FILES[setting]
        where = self._find(gpu, vf, name)
        self._tree.write(f'{number * unit}\n', *where)
        try:
            found = self._read(gpu, vf, setting)
        except files.Unreadable as error:
            raise OSError(errno.EIO, str(error)) from error
        # The driver may round to what the hardware can do: memory up only.
        is_too_little = unit > 1 and found < number
        if is_too_little or abs(found - number) * _ROUNDING_PART > number:
            raise OSError(
                errno.EIO,
                f'the driver accepted {number * unit} but shows '
                f'{found * unit}',
                self._tree.path(*where),
            )

    def _read(self, gpu: values.PciAddress, vf: int, setting: str) -> int:
        name, unit = _FILES[setting]
        where = self._find(gpu, vf, name)
        text = self._tree.read(*where)
        if not (text.isascii() and text.isdigit()) or (
            len(text) > _MOST_DIGITS
        ):
            raise self._tree.unexpected(text, 'a number', *where)
        return int(text) // unit

    def _find(self, gpu: values.PciAddress, vf: int, name: str) -> files.Path:
        return (*files.PCI, str(gpu), _ADMIN, f'vf{vf}', 'profile', name)
