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

"""Virtual functions that are vGPUs, as PCI devices of Nova.

With vendor-specific VFIO, Nova's own driver serves a virtual function as a PCI
device, and its type must be set before. All functions of a GPU have one
product id, so each is listed by its address: by ids, a server could get a
function of another type. The resource class is the type's, so that a flavor
gets this type only. ``managed`` is ``no``: libvirt must not unbind the
function from its driver, which would remove the vGPU.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.generate import ini
from nova_vgpu.generate import type_requests
from nova_vgpu.knowledge import capabilities
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import whole_gpu_names
from nova_vgpu.plan import capacity
from nova_vgpu.plan import type_matching


@dataclasses.dataclass(frozen=True, slots=True)
class _Served:
    """A GPU with those functions that are to have a type."""

    gpu: values.PhysicalGPU
    type: values.VGPUType
    name: str
    functions: tuple[values.VirtualFunction, ...]
    is_maximum_known: bool

    @property
    def resource_class(self) -> str:
        return traits.custom('VGPU', self.name)

    @property
    def unset(self) -> int:
        """How many of the functions do not have the type yet."""
        return sum(not vf.vgpus for vf in self.functions)


def generate(
    host: values.Host,
    grants: Sequence[values.MatchedRequest],
    modes: values.ModesRead,
) -> values.Fragment:
    """The lines for functions of these GPUs.

    :raises RequestRefusedError: if a GPU has none to list, with every reason.
    """
    names = type_matching.list_type_names(host)
    served = []
    refused = []
    for granted in grants:
        answer = _serve(granted, names, modes.of(granted.gpu.address))
        if isinstance(answer, str):
            refused.append(answer)
        else:
            served.append(answer)
    if refused:
        raise exception.RequestRefusedError(refused)
    return values.Fragment(
        tuple(_write(served)), warnings=tuple(_warn(served))
    )


def _warn(served: Sequence[_Served]) -> Iterator[str]:
    for of in served:
        if of.unset:
            yield (
                f'GPU {of.gpu}: {of.unset} of {len(of.functions)} functions '
                f'are not set to {of.name} yet. Nova does not set them.'
            )
        if not of.is_maximum_known:
            yield type_requests.warn_of_maximum(of.gpu, len(of.functions))


def _serve(
    granted: values.MatchedRequest,
    names: Mapping[str, str],
    modes: values.GPUModes,
) -> _Served | str:
    gpu, vgpu_type = granted.gpu, granted.type
    if vgpu_type is None:
        return type_requests.refuse_not_ready(granted)
    if gpu.framework is not values.Framework.VENDOR_VFIO:
        return (
            f'GPU {gpu} has mediated devices, and its virtual functions are '
            'not vGPUs: --for nova'
        )
    counted = capacity.plan_capacity(
        gpu, vgpu_type, gpu.functions, None, names, modes
    )
    # A function of another type would be assigned to servers as this type.
    able = [
        vf
        for vf in gpu.vfs
        if vf.vendor_vfio
        and all(vgpu.type_id == vgpu_type.id for vgpu in vf.vgpus)
    ]
    able.sort(key=lambda vf: not vf.vgpus)
    functions = sorted(able[: counted.total], key=lambda vf: vf.address)
    if not functions:
        return (
            f'GPU {gpu} has no room for {granted.name} beside its vGPUs '
            '("nova-vgpu device list"). Remove those first.'
        )
    return _Served(
        *(gpu, vgpu_type, granted.name, tuple(functions)),
        capacity.is_maximum_known(gpu, vgpu_type, modes),
    )


def _write(served: Sequence[_Served]) -> Iterator[str]:
    yield from ini.write_head(values.Reader.PCI)
    yield from ini.write_pci_in_placement()
    for of in served:
        yield ''
        yield from ini.write_comment(_describe(of))
        for vf in of.functions:
            yield from ini.write_json('device_spec', _spec(of, vf))
    for name, of in {of.name: of for of in served}.items():
        yield from ini.write_alias(
            whole_gpu_names.make_alias(name), 'type-VF', of.resource_class
        )


def _describe(of: _Served) -> str:
    number = of.type.id.rpartition('-')[2]
    return (
        f'{of.gpu}: {capabilities.model_of(of.gpu) or "GPU"}, '
        f'{ini.count(len(of.functions), "vGPU")} of {of.name}. Before '
        'nova-compute starts, each of these functions has to have '
        f'{number} in nvidia/current_vgpu_type.'
    )


def _spec(of: _Served, vf: values.VirtualFunction) -> dict[str, str]:
    found = capabilities.traits_of(of.gpu, of.type)
    return {
        'address': str(vf.address),
        'managed': 'no',
        'resource_class': of.resource_class,
        # Its identity. Its capabilities follow from that, in some thirty more.
        'traits': ','.join(t for t in found if traits.is_custom(t)),
    }
