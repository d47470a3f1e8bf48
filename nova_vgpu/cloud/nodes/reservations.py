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

"""What a kubelet holds back from pods, by the size of a node.

Without that, pods may take all memory of a node, and the kernel ends what it
likes. The amounts are those that Google publishes for Kubernetes on nodes of
its customers (GKE on-prem, "Resources available for your workloads").

The memory of the host is another matter: VFIO pins all of a guest with a vGPU
or a whole GPU, whatever its flavor says.
"""

import dataclasses

from nova_vgpu.cloud.orders import flavors

#: With less left for pods, those of the GPU operator do not fit.
LEAST_MIB = 1024

_SYSTEM_MIB = 330
_MEMORY_SHARE = 20  # the 20th part
_CPU_MILLIS = 80
_MILLIS_PER_CPU = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Reservation:
    """For Kubernetes and for the guest's system; the rest is for pods."""

    cpu_millis: int
    kube_mib: int
    system_mib: int
    pods_mib: int


def reserve(size: flavors.Size) -> Reservation:
    """What to hold back on a node of this size."""
    kube_mib = size.ram_mib // _MEMORY_SHARE
    return Reservation(
        _CPU_MILLIS + size.vcpus * _MILLIS_PER_CPU,
        kube_mib,
        _SYSTEM_MIB,
        size.ram_mib - kube_mib - _SYSTEM_MIB,
    )
