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


"""Setting the type of a virtual function: vendor-specific VFIO.

::

    /sys/bus/pci/devices/<VF>/nvidia/current_vgpu_type

A number makes the function a vGPU of that type, 0 removes the vGPU. The
decision is made elsewhere; this module writes the number and reads it back.
"""

from concurrent import futures
import errno
import threading

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import pci_functions

_PREFIX = 'nvidia-'
_STUCK = "The vendor's driver hangs: see the kernel log."
_MOST = 999_999_999  # as many digits as the reader accepts


def number_of(vgpu_type: values.VGPUType) -> int:
    """The driver's number of a type."""
    return int(vgpu_type.id.removeprefix(_PREFIX))


def write_type(tree: files.Files, address: str, number: int) -> None:
    """Set the type of a virtual function, or remove its vGPU with 0.

    This runs with privileges: it trusts neither of its arguments.

    :raises ValueError: if the address or the number is invalid.
    :raises OSError: if the kernel refuses, or shows another type afterwards.
    """
    function = values.PciAddress.parse(address)
    if type(number) is not int or not 0 <= number <= _MOST:
        raise ValueError(f'{number!r} is not the number of a vGPU type')
    where = (*pci_functions.PCI, str(function), 'nvidia', 'current_vgpu_type')
    tree.write(f'{number}\n', *where)
    try:
        found = tree.read(*where)
    except files.Unreadable as error:
        raise OSError(errno.EIO, str(error)) from error
    if found != str(number):
        raise OSError(
            errno.EIO,
            f'the driver accepted {number} but shows {found}',
            tree.path(*where),
        )


def write_type_in_time(
    tree: files.Files, address: str, number: int, seconds: float
) -> None:
    """Do the same with a timeout.

    A write that hangs in the kernel cannot be interrupted, not even by killing
    the process. It blocks only a thread of its own. Until it returns, the
    function is not written to again.

    :raises OSError: also ``ETIMEDOUT``, and ``EBUSY`` the next time.
    """
    name = f'nova-vgpu: type of {values.PciAddress.parse(address)}'
    if any(thread.name == name for thread in threading.enumerate()):
        raise OSError(
            errno.EBUSY,
            f'an earlier write to {address} has not returned. {_STUCK}',
        )
    outcome: futures.Future[None] = futures.Future()

    def write() -> None:
        try:
            write_type(tree, address, number)
        except BaseException as error:  # any error is for the caller
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    thread = threading.Thread(target=write, name=name, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise OSError(
            errno.ETIMEDOUT,
            f'timed out after {seconds:g} s. {_STUCK}',
        )
    outcome.result()
