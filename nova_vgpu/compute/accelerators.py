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

"""mdevs that Cyborg makes for servers, and looks after itself.

Nova has Cyborg make them only in some operations. The others find them among
the vGPUs of the guest, where their aliases tell which they are.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Set
import contextlib

#: What Cyborg tells Nova of the devices of a server.
AccelInfo = Iterable[Mapping[str, str]] | None


class Accelerators:
    """The mdevs of Cyborg's for guests that are being defined."""

    def __init__(self) -> None:
        self._uuids: set[str] = set()

    @contextlib.contextmanager
    def marking(self, uuids: Set[str]) -> Iterator[None]:
        """Have a guest that is defined meanwhile say which are Cyborg's."""
        self._uuids.update(uuids)
        try:
            yield
        finally:
            self._uuids.difference_update(uuids)

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._uuids


def list_uuids(accel_info: AccelInfo) -> set[str]:
    """The mdevs that Cyborg makes for a server."""
    return {
        request['attach_handle_uuid']
        for request in accel_info or ()
        if request['attach_handle_type'] == 'MDEV'
    }
