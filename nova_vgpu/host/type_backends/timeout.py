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

A write can hang in the kernel. Until it returns, the function is not written
to again.
"""

import errno

from nova_vgpu import values
from nova_vgpu.host import hanging_calls
from nova_vgpu.host import type_backends

_HANGS = "The vendor's driver hangs: see the kernel log."


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
    name = f'type of {values.PciAddress.parse(function)}'
    try:
        hanging_calls.call(
            lambda: backend.set_type(function, type_id), name, seconds
        )
    except hanging_calls.StillHangsError as error:
        raise OSError(
            errno.EBUSY,
            f'an earlier write to {function} has not returned. {_HANGS}',
        ) from error
    except hanging_calls.TimedOutError as error:
        raise OSError(errno.ETIMEDOUT, f'{error}. {_HANGS}') from error
