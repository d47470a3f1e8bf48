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

"""A whole simulated machine: kernel, vendor's programs and libvirt.

Its state can be exported and restored, in another process too: one that is
killed in the middle of a change leaves a machine to continue with.
"""

import dataclasses
import typing

from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import libvirt_host
from nova_vgpu.sandbox import vendor_tools


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The state of a machine at one moment."""

    kernel: dict[str, typing.Any]
    tools: vendor_tools.Behaviour
    libvirt: dict[str, typing.Any]


class Machine:
    """A host with these GPUs."""

    def __init__(self, *gpus: host.GPU, mtty: bool = False) -> None:
        self.kernel = kernel.Kernel(*gpus, mtty=mtty)
        self.tools = vendor_tools.VendorTools(self.kernel)
        self.libvirt = libvirt_host.LibvirtHost(self.kernel)

    def snapshot(self) -> Snapshot:
        with self.kernel.lock:
            return Snapshot(
                self.kernel.snapshot(),
                self.tools.snapshot(),
                self.libvirt.snapshot(),
            )

    def load(self, snapshot: Snapshot) -> None:
        with self.kernel.lock:
            # Before the kernel, which libvirt reads when it changes.
            self.libvirt.load(snapshot.libvirt)
            self.tools.load(snapshot.tools)
            self.kernel.load(snapshot.kernel)
