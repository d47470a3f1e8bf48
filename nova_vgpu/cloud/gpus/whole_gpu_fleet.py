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

"""Whole GPUs of a cloud, which servers get by PCI passthrough.

Nova's PCI tracker makes their providers and names them after the compute node
and the address in capitals: ``compute1_0000:C1:00.0``. Network cards have such
providers, too. A GPU has the traits that ``nova-vgpu config generate
--passthrough`` gives it, and its resource class follows from its model.
"""

from collections.abc import Iterable
from collections.abc import Mapping

from nova_vgpu import values
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.knowledge import traits


def is_device(name: str) -> bool:
    """Whether this is how Nova names a device that it passes through."""
    try:
        return str(values.PciAddress.parse(name)).upper() == name
    except values.MalformedAddress:
        return False


def is_gpu(gpu: fleet.GPU) -> bool:
    """Whether the provider is that of a whole GPU."""
    return (
        is_device(gpu.device)
        and traits.TRACKED_BY_NOVA in gpu.traits
        and any(t.startswith(traits.VENDOR_PREFIX) for t in gpu.traits)
        and not any(t.startswith(traits.TYPE_PREFIX) for t in gpu.traits)
    )


def find_role(gpu: fleet.GPU) -> values.Role:
    return values.Role.PASSTHROUGH if is_gpu(gpu) else values.Role.VGPU


def make_gpus(
    listed: Iterable[fleet.Listed], summaries: Mapping[str, fleet.Summary]
) -> tuple[fleet.GPU, ...]:
    """The whole GPUs, in no order."""
    return tuple(filter(is_gpu, fleet.make_devices(listed, summaries)))
