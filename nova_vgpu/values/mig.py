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

"""GPU instances, into which a GPU in MIG mode is divided."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class MigType:
    """A type that is backed by MIG, and the GPU instances that have it.

    ``profile`` is the name of their profile, ``1g.10gb``, and ``profile_id``
    its number for nvidia-smi. ``instances`` of it exist on the GPU; each has
    up to ``vgpus`` vGPUs of the type, None if that is unknown.
    """

    type_id: str
    name: str | None
    profile_id: int
    profile: str
    instances: int
    vgpus: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GPUInstanceProfile:
    """A size of GPU instances; a GPU has ``most`` of them at most."""

    id: int
    name: str
    slices: int
    memory_mib: int
    most: int


@dataclasses.dataclass(frozen=True, slots=True)
class GPUInstance:
    """A GPU instance that exists.

    ``is_used`` says whether it has a vGPU or a process, None if that is
    unknown; ``vgpus`` counts those of guests that run. It ``is_complete`` with
    a compute instance: without one it has no vGPUs.
    """

    id: int
    profile_id: int
    is_used: bool | None
    vgpus: int = 0
    is_complete: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class GPUInstances:
    """The GPU instances of a GPU, of whatever profile, and the profiles."""

    profiles: tuple[GPUInstanceProfile, ...] = ()
    instances: tuple[GPUInstance, ...] = ()

    def list_of(self, profile_id: int) -> tuple[GPUInstance, ...]:
        return tuple(i for i in self.instances if i.profile_id == profile_id)
