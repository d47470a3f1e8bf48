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

"""The back-end for NVIDIA's vendor-specific VFIO, which has no mdevs.

::

    <VF>/nvidia/creatable_vgpu_types    ids and names, one type per line
    <VF>/nvidia/current_vgpu_type       the id of its type, or 0

Writing an id makes the virtual function a vGPU of that type, 0 removes the
vGPU. What a function can be set to shrinks as others are set.
"""

import errno
import functools
import re

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import type_backends

#: What a function of this back-end has in its directory.
ENTRY = 'nvidia'

_CURRENT = 'current_vgpu_type'
_CREATABLE = 'creatable_vgpu_types'

_PREFIX = 'nvidia-'
# As many digits as the reader of numbers accepts.
_ID = re.compile(rf'{_PREFIX}([1-9][0-9]{{0,8}})', re.ASCII)
_TYPE = re.compile(r'([0-9]{1,9})\s*:\s*(\S.*)', re.ASCII)
_HEADER = re.compile(r'ID\s*:.*', re.ASCII | re.IGNORECASE)


class NvidiaTypes:
    """The types of virtual functions."""

    def __init__(
        self, tree: files.Files, faults: list[values.ReadFault] | None = None
    ) -> None:
        self._tree = tree
        self._faults = [] if faults is None else faults

    def read(self, function: type_backends.Function) -> type_backends.Found:
        """The types that a function can be set to, and its vGPU."""
        where = (*function.where, ENTRY)
        try:
            current = self._tree.read_number(*where, _CURRENT)
            if current:
                # It has one vGPU and takes no other, whatever else it lists.
                type_id = f'{_PREFIX}{current}'
                return (), (values.VGPU(function.name, type_id),)
            text = self._tree.read(*where, _CREATABLE)
            return _parse_creatable(text), ()
        except files.Unreadable as error:
            # Whether the VF is free is unknown, so it offers nothing.
            self._faults.append(error.as_fault(function.name))
        except ValueError as error:
            self._faults.append(
                self._tree.unexpected(
                    str(error), 'an id and a name', *where, _CREATABLE
                ).as_fault(function.name)
            )
        return (), ()

    def set_type(self, function: str, type_id: str | None) -> None:
        """Make a function a vGPU of a type; None removes its vGPU.

        This runs with privileges: it trusts neither of its arguments.

        :param function: its PCI address.
        :raises ValueError: if the address or the id is invalid.
        :raises OSError: if the kernel refuses, or shows another type
            afterwards.
        """
        address = values.PciAddress.parse(function)
        number = '0' if type_id is None else _parse_id(type_id)
        where = (*files.PCI, str(address), ENTRY, _CURRENT)
        self._tree.write(f'{number}\n', *where)
        try:
            found = self._tree.read(*where)
        except files.Unreadable as error:
            raise OSError(errno.EIO, str(error)) from error
        if found != number:
            raise OSError(
                errno.EIO,
                f'the driver accepted {number} but shows {found}',
                self._tree.path(*where),
            )


def _parse_id(type_id: str) -> str:
    """The driver's number of a type.

    :raises ValueError: if it is not the id of a type.
    """
    match = _ID.fullmatch(type_id)
    if match is None:
        raise ValueError(f'{type_id!r} is not the id of a vGPU type')
    return match[1]


# All functions of a GPU that are free have the same list.
@functools.lru_cache(maxsize=256)
def _parse_creatable(text: str) -> tuple[values.Offer, ...]:
    """The types in a list of them.

    :raises ValueError: with the line that is invalid.
    """
    offers = []
    for line in map(str.strip, text.splitlines()):
        match = _TYPE.fullmatch(line)
        if not line:
            continue
        if match:
            vgpu_type = values.VGPUType(f'{_PREFIX}{int(match[1])}', match[2])
            offers.append(values.Offer(vgpu_type, 1))
        elif _HEADER.fullmatch(line) is None:
            raise ValueError(line)
    return tuple(offers)
