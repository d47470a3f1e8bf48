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

"""Set a type with a timeout.

A write that hangs in the kernel cannot be interrupted, not even by killing the
process. It blocks only a thread of its own. Until it returns, the function is
not written to again.
"""

from concurrent import futures
import errno
import threading

from nova_vgpu import values
from nova_vgpu.host import type_backends

_STUCK = "The vendor's driver hangs: see the kernel log."


def set_type(
    backend: type_backends.TypeSetter,
    function: str,
    type_id: str | None,
    seconds: float,
) -> None:
    """Set the type of a function, or clear it with None.

    :raises ValueError: if the address or the id is invalid.
    :raises OSError: also ``ETIMEDOUT``, and ``EBUSY`` the next time.
    """
    name = f'nova-vgpu: type of {values.PciAddress.parse(function)}'
    if any(thread.name == name for thread in threading.enumerate()):
        raise OSError(
            errno.EBUSY,
            f'an earlier write to {function} has not returned. {_STUCK}',
        )
    outcome: futures.Future[None] = futures.Future()

    def write() -> None:
        try:
            backend.set_type(function, type_id)
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
