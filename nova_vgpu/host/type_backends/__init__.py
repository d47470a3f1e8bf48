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

"""Back-ends: how the functions of a GPU get their types.

Kernel drivers differ in how a function of a GPU is made a vGPU of a type. Each
back-end knows one way, and nothing else of the project knows its files:

``mdev``
    the kernel's mediated devices: a function offers types, and libvirt creates
    mdevs of them on it (:mod:`nova_vgpu.host.mdevs`)
``nvidia``
    NVIDIA's vendor-specific VFIO: a virtual function is set to a type
``xe``
    Intel's SR-IOV: virtual functions have no types, and the kernel provisions
    them by itself
``gim``
    AMD's SR-IOV: the driver enables virtual functions when it is loaded, and
    how the GPU is partitioned is only read

A function is given to a back-end as it was found; what a back-end reads of it,
and from where, is its own.
"""

from collections.abc import Collection
import dataclasses
import typing

from nova_vgpu import values

#: The types that a function takes, and the vGPUs on it.
Found = tuple[tuple[values.Offer, ...], tuple[values.VGPU, ...]]

#: What back-ends write to, below the directory of a PCI function: nothing else
#: of it is ever written (:mod:`nova_vgpu.host.files`).
WRITABLE = (
    'nvidia/current_vgpu_type',
    r'sriov_admin/vf[1-9][0-9]{0,4}/profile/vram_quota',
    r'sriov_admin/vf[1-9][0-9]{0,4}/profile/exec_quantum_ms',
    r'sriov_admin/vf[1-9][0-9]{0,4}/profile/preempt_timeout_us',
)


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A PCI function, or another parent of mdevs.

    ``name`` is libvirt's, ``where`` its directory in sysfs and ``entries`` are
    the names in that directory.
    """

    name: str
    where: tuple[str, ...]
    entries: Collection[str] = ()


class TypeReader(typing.Protocol):
    """Lists and reads the types of the functions of one GPU."""

    def read(self, function: Function) -> Found:
        """The types that a function takes, and the vGPUs on it.

        What cannot be read becomes a fault of the function.
        """
        ...


class TypeSetter(typing.Protocol):
    """Sets and clears the types of functions that are vGPUs themselves."""

    def set_type(self, function: str, type_id: str | None) -> None:
        """Make a function a vGPU of a type; None removes its vGPU.

        This runs with privileges: it trusts neither of its arguments.

        :param function: its PCI address.
        :raises ValueError: if the address or the id is invalid.
        :raises OSError: if the kernel refuses, or shows another type
            afterwards.
        """
        ...
