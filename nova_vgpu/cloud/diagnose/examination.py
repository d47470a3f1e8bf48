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

"""What the doctor of a cloud is given."""

import collections
from collections.abc import Iterable
import dataclasses
import functools

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu.cloud.orders import flavors as cloud_flavors
from nova_vgpu.cloud.orders import vgpu_requests

#: The prefix of a resource class in the name of its limit.
OF_CLASS = 'class:'


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """A limit that is registered in Keystone."""

    name: str
    default: int
    service: str
    region: str | None = None

    @property
    def resource_class(self) -> str | None:
        """None if it is a limit of something else."""
        found = self.name.removeprefix(OF_CLASS)
        return None if found == self.name else found


@dataclasses.dataclass(frozen=True)
class Examination:
    """A cloud.

    ``gpus`` are those that serve vGPUs, and ``whole`` those that Nova passes
    through. ``nodes`` are the names of Nova's compute nodes, ``services`` the
    ids of Nova in Keystone, and ``regions`` those of its endpoints. ``region``
    is the one that was read; None if that is not known.
    """

    gpus: tuple[fleet.GPU, ...] = ()
    flavors: tuple[cloud_flavors.Flavor, ...] = ()
    nodes: frozenset[str] = frozenset()
    limits: tuple[Limit, ...] = ()
    services: frozenset[str] = frozenset()
    regions: frozenset[str | None] = frozenset()
    region: str | None = None
    whole: tuple[fleet.GPU, ...] = ()

    @functools.cached_property
    def offered(self) -> frozenset[str]:
        """The resource classes that GPUs have."""
        return vgpu_requests.list_classes(self.gpus)

    @functools.cached_property
    def kinds(self) -> tuple[fleet.GPU, ...]:
        """One of all GPUs that are alike."""
        return tuple({_kind_of(gpu): gpu for gpu in self.gpus}.values())

    @functools.cached_property
    def kinds_of_hosts(self) -> tuple[tuple[fleet.GPU, ...], ...]:
        """The GPUs of one of all hosts that have the same GPUs."""
        by_host = collections.defaultdict(list)
        for gpu in self.gpus:
            by_host[gpu.host].append(gpu)
        return tuple(
            {
                frozenset(collections.Counter(map(_kind_of, gpus)).items()): (
                    tuple(gpus)
                )
                for gpus in by_host.values()
            }.values()
        )

    @functools.cached_property
    def host_traits(self) -> frozenset[str]:
        """What hosts with GPUs have, beside the traits of these."""
        return frozenset[str]().union(*(g.host_traits for g in self.kinds))

    @property
    def other_regions(self) -> frozenset[str | None]:
        """Those of Nova that have other GPUs, which were not read."""
        return self.regions - {self.region} if self.region else frozenset()

    def is_vgpu_class(self, name: str) -> bool:
        return vgpu_requests.is_vgpu_class(name, self.offered)

    def list_requests(
        self, flavor: cloud_flavors.Flavor
    ) -> tuple[vgpu_requests.VGPURequest, ...]:
        return vgpu_requests.list_requests(flavor, self.offered)


def of_gpus(
    gpus: Iterable[fleet.GPU], flavors: tuple[cloud_flavors.Flavor, ...]
) -> Examination:
    """GPUs of both kinds and flavors, without anything else of the cloud."""
    found = tuple(gpus)
    return Examination(
        tuple(gpu for gpu in found if not whole_gpu_fleet.is_gpu(gpu)),
        flavors,
        whole=tuple(filter(whole_gpu_fleet.is_gpu, found)),
    )


def _kind_of(gpu: fleet.GPU) -> tuple[object, ...]:
    """What a flavor can ask for: the same for GPUs that are alike."""
    stocks = tuple((s.resource_class, s.total) for s in gpu.stocks)
    return gpu.traits, gpu.host_traits, stocks
