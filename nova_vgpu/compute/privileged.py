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


"""What nova-compute may not do itself: it runs as a user without privileges.

Nova's own privileged helper does it. That is allowed to start on every host
that runs Nova, so nothing has to be added to the host's rules; and all that
can be asked of it here is to set the type of a virtual function, and to read
the modes of GPUs, which NVML shows to root only, and how a GPU is partitioned.
"""

from collections.abc import Sequence
import typing

import nova.privsep

from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import gpu_modes
from nova_vgpu.host import sysfs
from nova_vgpu.host.type_backends import gim
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.host.type_backends import timeout

#: Setting a type takes a moment. If the kernel does not come back, all that is
#: privileged in Nova would soon be waiting for it: the helper has few threads.
_SECONDS = 30.0
#: nova-compute waits for this when it starts, if NVML hangs.
_NVML_SECONDS = 10.0


@nova.privsep.sys_admin_pctxt.entrypoint  # type: ignore[untyped-decorator]
def set_type(function: str, type_id: str | None) -> None:
    """Set the type of a virtual function, or clear it with None."""
    backend = nvidia.NvidiaTypes(files.Files(sysfs.DEFAULT_ROOT))
    timeout.set_type(backend, function, type_id, _SECONDS)


@nova.privsep.sys_admin_pctxt.entrypoint  # type: ignore[untyped-decorator]
def read_modes(addresses: Sequence[str]) -> list[typing.Any]:
    """The modes of GPUs that NVIDIA's driver has, as they are packed."""
    parsed = [values.PciAddress.parse(address) for address in addresses]
    return gpu_modes.pack(gpu_modes.read_gpus(parsed, _NVML_SECONDS))


@nova.privsep.sys_admin_pctxt.entrypoint  # type: ignore[untyped-decorator]
def read_partitions(gpu: str, name: str) -> str:
    """The text of a file about the partitions of a GPU; empty if it has none.

    :raises ValueError: for any other file.
    """
    return gim.read(files.Files(sysfs.DEFAULT_ROOT), gpu, name)
