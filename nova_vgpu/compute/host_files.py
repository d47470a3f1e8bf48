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

"""sysfs, as nova-compute reads it: it is not root.

GIM's files about partitions are for root alone. Nova's privileged helper reads
them for it.
"""

from collections.abc import Callable
import errno

from nova_vgpu.host import files
from nova_vgpu.host.type_backends import gim

ReadPartitions = Callable[[str, str], str]


def read_as_root(gpu: str, name: str) -> str:
    """The text of a file about the partitions of a GPU.

    :raises OSError: if Nova's privileged helper fails.
    """
    # Plans are also made where Nova is not.
    from oslo_privsep import comm
    from oslo_privsep import daemon

    from nova_vgpu.compute import privileged

    try:
        return str(privileged.read_partitions(gpu, name))
    except (
        ImportError,  # it runs where this project is not installed
        comm.PrivsepTimeout,
        daemon.FailedToDropPrivileges,
    ) as error:
        raise OSError(
            errno.EPERM, f"Nova's privileged helper fails: {error}"
        ) from error


class HostFiles(files.Files):
    """The files below one root directory.

    :param read_partitions: reads a file of a GPU as root.
    """

    def __init__(
        self, root: str, read_partitions: ReadPartitions = read_as_root
    ) -> None:
        super().__init__(root)
        self._read_partitions = read_partitions

    def read(self, *parts: str) -> str:
        """The text of a file, without white space around it.

        :raises Unreadable: also if it is not text, or too long.
        """
        try:
            return super().read(*parts)
        except files.Unreadable as error:
            is_refused = isinstance(error.__cause__, PermissionError)
            if not is_refused or parts[-1] not in gim.FILES:
                raise
            try:
                return self._read_partitions(*parts[-2:])
            except OSError:
                raise error from error.__cause__
