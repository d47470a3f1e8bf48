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

"""The state of the stand-in for NVML, ``lab/fakenvml``.

It answers from a directory of text files, which are written here for simulated
GPUs. Tests change single files afterwards: the library reads them again at
every call.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import pathlib

from nova_vgpu.knowledge import capabilities
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host

DRIVER_VERSION = '595.58.03'
_LICENSED = 5


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
class GPU:
    """A simulated GPU as NVML sees it.

    With ``profiles`` it has MIG mode, which is on or off; ``instances`` are
    the names of the profiles of its GPU instances. ``guests`` are the UUIDs of
    the virtual machines that have its vGPUs, by the names of the vGPUs: of
    others NVML does not tell.
    """

    card: host.GPU
    profiles: tuple[Profile, ...] = ()
    mig: bool = False
    instances: tuple[str, ...] = ()
    guests: Mapping[str, str] = dataclasses.field(default_factory=dict)


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


def write_state(
    directory: pathlib.Path,
    gpus: Iterable[GPU],
    driver_version: str = DRIVER_VERSION,
) -> None:
    """Write the files for these GPUs, and for no others."""
    gpus = tuple(gpus)
    (directory / 'gpus').mkdir(parents=True)
    (directory / 'driver_version').write_text(f'{driver_version}\n')
    types = {t.number: (t, gpu) for gpu in gpus for t in gpu.card.board.types}
    _write(
        directory / 'types',
        (_describe_type(t, gpu) for t, gpu in types.values()),
    )
    for order, gpu in enumerate(gpus):
        _write_gpu(directory / 'gpus' / str(gpu.card.address), gpu, order)


def _write_gpu(directory: pathlib.Path, gpu: GPU, order: int) -> None:
    directory.mkdir()
    card = gpu.card
    mode = '1 1' if gpu.mig else '0 0'
    files: dict[str, Iterable[str]] = {
        'name': [f'NVIDIA {card.address}'],
        'vfs': [str(card.vfs)],
        'ecc': ['0 0'],
        'scheduler': ['1'],
        'types': map(_describe_room, card.board.types),
        'vgpus': _list_vgpus(gpu, order),
        'processes': [],
        'nvlinks': [],
    }
    if card.board.total_vfs:
        files['heterogeneous'] = [str(int(card.mixed))]
    if gpu.profiles:
        files |= {
            'mig': [mode],
            'profiles': map(_describe_profile, gpu.profiles),
            'instances': _list_instances(gpu),
        }
    for name, lines in files.items():
        _write(directory / name, lines)


def _describe_type(board_type: boards.BoardType, gpu: GPU) -> str:
    found = find_profile(gpu, board_type)
    shared = found.memory_mib // 1024 * 1024 if found else 0
    each = max(shared // board_type.framebuffer_mib, 1) if found else '-'
    profile = found.id if found else '-'
    return (
        f'{board_type.number} {profile} {board_type.framebuffer_mib} {each} '
        f'16 Quadro {board_type.name}'
    )


def find_profile(gpu: GPU, board_type: boards.BoardType) -> Profile | None:
    """The profile of a type that is backed by MIG, by its name."""
    name = capabilities.parse_type_name(board_type.name or '')
    if name is None or name.slices is None:
        return None
    fitting = [p for p in gpu.profiles if p.slices == name.slices]
    return min(
        fitting,
        key=lambda p: (p.memory_mib + 1024 < name.framebuffer_mib, p.number),
        default=None,
    )


def _describe_room(board_type: boards.BoardType) -> str:
    """Places are counted in units of 512 MiB of frame buffer."""
    slots = board_type.framebuffer_mib // 512
    places = ','.join(str(n * slots) for n in range(board_type.maximum))
    return (
        f'{board_type.number} {board_type.maximum} {slots} {places} {slots} '
        f'{places}'
    )


def _describe_profile(profile: Profile) -> str:
    starts = ','.join(map(str, profile.starts))
    return (
        f'{profile.number} {profile.id} {profile.slices} '
        f'{profile.memory_slices} {profile.maximum} {profile.memory_mib} '
        f'{starts} {profile.name}'
    )


def _list_instances(gpu: GPU) -> Iterable[str]:
    """Its GPU instances, one behind the other, with compute instances."""
    by_name = {profile.name: profile for profile in gpu.profiles}
    free = 0
    for number, name in enumerate(gpu.instances, 1):
        profile = by_name[name]
        start = min(start for start in profile.starts if start >= free)
        free = start + profile.memory_slices
        yield f'{number} {profile.id} {start} {profile.memory_slices} 1'


def _list_vgpus(gpu: GPU, order: int) -> Iterable[str]:
    """The vGPUs that guests have; their numbers differ from GPU to GPU."""
    by_id = {t.id: t for t in gpu.card.board.types}
    for index, created in enumerate(gpu.card.pinned()):
        vf = created.vf
        function = (
            gpu.card.address if vf is None else gpu.card.vf_addresses[vf]
        )
        name = created.uuid or str(function)
        if name in gpu.guests:
            found = by_id[created.type_id]
            slots = found.framebuffer_mib // 512
            yield (
                f'{order * 100 + index + 1} {found.number} '
                f'{gpu.guests[name]} {created.uuid or "-"} {index * slots} - '
                f'{_LICENSED} {DRIVER_VERSION} vgpu-{order}-{index} 0'
            )


def _write(path: pathlib.Path, lines: Iterable[str]) -> None:
    path.write_text(''.join(f'{line}\n' for line in lines))
