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

"""The vGPUs and the functions of a GPU that a server can get.

A vGPU goes by its name: the UUID of an mdev, or, in the vendor-specific VFIO
framework, the node device name of its virtual function. What is in use is
known by the same names. There it is a function's name whether or not its type
is set at the moment: a server that is shut off keeps its function over a
reboot of the host, which clears the type.
"""

from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator

from nova_vgpu import values


def list_idle(
    assigned: values.Assignment, in_use: Container[str]
) -> tuple[str, ...]:
    """vGPUs of the GPU's type that are there and not in use."""
    return tuple(
        vgpu.name
        for vgpu in assigned.gpu.all_vgpus
        if assigned.type is not None
        and vgpu.type_id == assigned.type.id
        and vgpu.function in assigned.functions
        and vgpu.name not in in_use
    )


def list_rooms(
    assigned: values.Assignment, in_use: Container[str]
) -> Iterator[str]:
    """The functions of the GPU that take one more vGPU of its type.

    :param in_use: names of vGPUs, and of functions.
    """
    gpu, counted = assigned.gpu, assigned.capacity
    if assigned.type is None or counted is None:
        return
    if counted.total <= counted.existing:
        return
    if _takes_one(gpu.offers, assigned.type):
        yield gpu.name
    for vf in gpu.vfs:
        if (
            not vf.vgpus
            and vf.name not in in_use
            and vf.name in assigned.functions
            and _takes_one(vf.offers, assigned.type)
        ):
            yield vf.name


def _takes_one(
    offers: Iterable[values.Offer], vgpu_type: values.VGPUType
) -> bool:
    return any(
        offer.type.id == vgpu_type.id and offer.available for offer in offers
    )
