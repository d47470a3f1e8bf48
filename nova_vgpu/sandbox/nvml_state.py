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

from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import mig

DRIVER_VERSION = '595.58.03'
_LICENSED = 5


@dataclasses.dataclass(frozen=True, slots=True)
class GPU:
    """A simulated GPU as NVML sees it.

    ``guests`` are the UUIDs of the virtual machines that have its vGPUs, by
    the names of the vGPUs: of others NVML does not tell.
    """

    card: host.GPU
    guests: Mapping[str, str] = dataclasses.field(default_factory=dict)


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
    pending = card.mig_mode if card.mig_pending is None else card.mig_pending
    mode = f'{card.mig_mode:d} {pending:d}'
    files: dict[str, Iterable[str]] = {
        'name': [f'NVIDIA {card.address}'],
        'vfs': [str(card.vfs)],
        'ecc': ['0 0'],
        'scheduler': ['1'],
        'types': map(_describe_room, card.board.types),
        'vgpus': _list_vgpus(gpu, order),
        'processes': _list_processes(card),
        'nvlinks': [],
    }
    if card.board.total_vfs:
        files['heterogeneous'] = [str(int(card.mixed))]
    if card.profiles:
        files |= {
            'mig': [mode],
            'profiles': map(_describe_profile, card.profiles),
            'instances': _list_instances(card),
        }
    for name, lines in files.items():
        _write(directory / name, lines)


def _describe_type(board_type: boards.BoardType, gpu: GPU) -> str:
    found = mig.find_profile(gpu.card.profiles, board_type)
    each = mig.count_each(found, board_type) if found else '-'
    profile = found.id if found else '-'
    return (
        f'{board_type.number} {profile} {board_type.framebuffer_mib} {each} '
        f'16 Quadro {board_type.name}'
    )


def _describe_room(board_type: boards.BoardType) -> str:
    """Places are counted in units of 512 MiB of frame buffer."""
    slots = board_type.framebuffer_mib // 512
    places = ','.join(str(n * slots) for n in range(board_type.maximum))
    return (
        f'{board_type.number} {board_type.maximum} {slots} {places} {slots} '
        f'{places}'
    )


def _describe_profile(profile: mig.Profile) -> str:
    starts = ','.join(map(str, profile.starts))
    return (
        f'{profile.number} {profile.id} {profile.slices} '
        f'{profile.memory_slices} {profile.maximum} {profile.memory_mib} '
        f'{starts} {profile.name}'
    )


def _list_instances(card: host.GPU) -> Iterable[str]:
    for i in card.gpu_instances:
        yield (
            f'{i.id} {i.profile.id} {i.start} {i.profile.memory_slices} '
            f'{int(i.is_complete)}'
        )


def _list_processes(card: host.GPU) -> Iterable[str]:
    """As :func:`nova_vgpu.sandbox.modes.list_processes` has their ids."""
    if card.has_process:
        yield '1000 compute -'
    for instance in card.gpu_instances:
        if instance.has_process:
            yield f'{1000 + instance.id} compute {instance.id}'


def _list_vgpus(gpu: GPU, order: int) -> Iterable[str]:
    """The vGPUs that guests have; their numbers differ from GPU to GPU."""
    by_id = {t.id: t for t in gpu.card.board.types}
    for index, created in enumerate(gpu.card.pinned()):
        name = gpu.card.name_of(created)
        if name in gpu.guests:
            found = by_id[created.type_id]
            slots = found.framebuffer_mib // 512
            instance = created.gpu_instance
            yield (
                f'{order * 100 + index + 1} {found.number} '
                f'{gpu.guests[name]} {created.uuid or "-"} {index * slots} '
                f'{"-" if instance is None else instance} '
                f'{_LICENSED} {DRIVER_VERSION} vgpu-{order}-{index} 0'
            )


def _write(path: pathlib.Path, lines: Iterable[str]) -> None:
    path.write_text(''.join(f'{line}\n' for line in lines))
