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

"""GPU instances of a simulated GPU in MIG mode.

Instances of all profiles share the memory slices of the GPU: none overlap, and
each begins at a place that its profile allows. An instance has vGPUs of one
frame buffer, once it has a compute instance.
"""

from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses

from nova_vgpu.knowledge import capabilities
from nova_vgpu.sandbox import boards


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """A size of GPU instances.

    ``number`` is that of ``NVML_GPU_INSTANCE_PROFILE_*``, ``id`` the one that
    programs show; a GPU has up to ``maximum`` instances of the profile, which
    begin at one of ``starts``.
    """

    name: str
    number: int
    id: int
    slices: int
    memory_slices: int
    maximum: int
    memory_mib: int
    starts: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance; it ``is_complete`` with a compute instance."""

    id: int
    profile: Profile
    start: int
    is_complete: bool = True
    has_process: bool = False


# MIG user guide, "Supported MIG Profiles", and "nvidia-smi mig -lgip".
A100D_PROFILES = (
    Profile('MIG 1g.10gb', 0, 19, 1, 1, 7, 9728, (0, 1, 2, 3, 4, 5, 6)),
    Profile('MIG 1g.10gb+me', 7, 20, 1, 1, 1, 9728, (0, 1, 2, 3, 4, 5, 6)),
    Profile('MIG 1g.20gb', 9, 15, 1, 2, 4, 19968, (0, 2, 4, 6)),
    Profile('MIG 2g.20gb', 1, 14, 2, 2, 3, 19968, (0, 2, 4)),
    Profile('MIG 3g.40gb', 2, 9, 3, 4, 2, 40192, (0, 4)),
    Profile('MIG 4g.40gb', 3, 5, 4, 4, 1, 40192, (0,)),
    Profile('MIG 7g.80gb', 4, 0, 7, 8, 1, 80896, (0,)),
)


def find_profile(
    profiles: Iterable[Profile], board_type: boards.BoardType
) -> Profile | None:
    """The profile of a type that is backed by MIG, by its name."""
    name = capabilities.parse_type_name(board_type.name or '')
    if name is None or name.slices is None:
        return None
    fitting = [p for p in profiles if p.slices == name.slices]
    return min(
        fitting,
        key=lambda p: (p.memory_mib + 1024 < name.framebuffer_mib, p.number),
        default=None,
    )


def is_backed(board_type: boards.BoardType) -> bool:
    """Whether a type needs a GPU instance, by its name."""
    name = capabilities.parse_type_name(board_type.name or '')
    return name is not None and name.slices is not None


def count_each(profile: Profile, board_type: boards.BoardType) -> int:
    """How many vGPUs of a type an instance has at most."""
    shared = -(-profile.memory_mib // 1024) * 1024
    return max(shared // board_type.framebuffer_mib, 1)


def place(
    instances: Sequence[Instance], profile: Profile, **state: bool
) -> Instance | None:
    """One more instance of a profile, at the first place that is free."""
    taken = {
        slice_
        for instance in instances
        for slice_ in _slices(instance.profile, instance.start)
    }
    alike = sum(instance.profile == profile for instance in instances)
    free = [
        start
        for start in profile.starts
        if not taken & set(_slices(profile, start))
    ]
    if not free or alike >= profile.maximum:
        return None
    used = {instance.id for instance in instances}
    number = next(n for n in range(1, len(used) + 2) if n not in used)
    return Instance(number, profile, free[0], **state)


def lay_out(
    profiles: Iterable[Profile], names: Iterable[str]
) -> tuple[Instance, ...]:
    """Instances of the profiles with these names, one after the other."""
    by_name = {profile.name: profile for profile in profiles}
    made: list[Instance] = []
    for name in names:
        instance = place(made, by_name[name])
        if instance is None:
            raise ValueError(f'no place for {name}')
        made.append(instance)
    return tuple(made)


def _slices(profile: Profile, start: int) -> range:
    return range(start, start + profile.memory_slices)
