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

"""Which share of a divided GPU the vGPUs of a server belong to.

A provider that is to be replaced by those of the shares does not tell the
types of what servers hold there. Their guests do: by the vGPUs that they have,
or by the types that they note of vGPUs which are not there now.
"""

from collections.abc import Sequence

from nova_vgpu import values
from nova_vgpu.plan import shares as plan_shares
from nova_vgpu.plan import type_matching
from nova_vgpu.publish import providers


def list_shares(
    target: providers.Target,
    held: values.PlacementProvider,
    consumer: values.Consumer,
    shares: Sequence[values.Assignment],
) -> list[values.Assignment]:
    """The share of each vGPU that a server has of a GPU.

    An mdev that is not there now, because its server is shut off, may be one
    of this GPU.
    """
    gpu = shares[0].gpu
    there = {vgpu.name: vgpu for vgpu in gpu.all_vgpus}
    elsewhere = {
        vgpu.name for other in target.plan.gpus for vgpu in other.all_vgpus
    }
    device = held.name.removeprefix(f'{target.node}_')
    _, label = values.split_device(device, target.devices)
    # Nova's driver has one for each virtual function.
    is_one = device in gpu.functions and device != gpu.name
    places = frozenset({device}) if is_one else gpu.functions
    found = []
    for guest in target.guests:
        for note in guest.vgpus if guest.uuid == consumer.uuid else ():
            vgpu = there.get(note.name)
            function = vgpu.function if vgpu else note.name
            if label and _make_label(gpu, vgpu, note) not in (label, None):
                continue  # one of another share
            if function in places:
                found.append(find_share(shares, vgpu, note, function))
            elif note.name not in elsewhere and function not in gpu.functions:
                found.append(find_share(shares, None, note, None))
    return found


def find_share(
    shares: Sequence[values.Assignment],
    vgpu: values.VGPU | None,
    note: values.GuestVGPU | None,
    function: str | None,
) -> values.Assignment:
    """The share that a vGPU belongs to, by its type and its function.

    One of a type that the GPU is not to serve any more counts in the first
    share: it takes up the same hardware until its server leaves.
    """
    for share in shares:
        if function is not None and function not in share.functions:
            continue
        if vgpu and share.type and vgpu.type_id == share.type.id:
            return share
        if note and note.type_name and vgpu is None:
            of_note = values.VGPUType(note.type_name, note.type_name)
            if type_matching.find_matches(share.declared.name, [of_note]):
                return share
    return shares[0]


def _make_label(
    gpu: values.PhysicalGPU,
    vgpu: values.VGPU | None,
    note: values.GuestVGPU,
) -> str | None:
    """What a vGPU's type is called in names of providers, if it is known."""
    names = {t.id: t.name for t in gpu.types if t.name}
    called = vgpu.type_id if vgpu else note.type_name
    if called is None:
        return None
    return plan_shares.make_label(called, {called: names.get(called, called)})
