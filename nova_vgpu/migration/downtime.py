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

"""How long a guest stops while the state of its vGPUs is sent."""

import dataclasses

from nova_vgpu import values

_MIB = 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Downtime:
    """An estimate: the state of the vGPUs over the bandwidth, in MiB/s.

    As if all of it were sent while the guest is stopped. What the guest writes
    to its memory until then, and how fast the GPUs read and write their own
    memory, is not in it.
    """

    state_bytes: int
    bandwidth: int

    @property
    def seconds(self) -> float:
        return self.state_bytes / (self.bandwidth * _MIB)


def estimate(
    source: values.MigrationSource, bandwidth: int | None = None
) -> Downtime | None:
    """The downtime; None if the state or the bandwidth is unknown.

    :param bandwidth: in MiB/s, in place of Nova's limit.
    """
    sizes = [device.state_bytes for device in source.devices]
    known = [size for size in sizes if size is not None]
    speed = bandwidth or source.settings.bandwidth
    if not speed or not known or len(known) != len(sizes):
        return None
    return Downtime(sum(known), speed)
