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

"""The effects of writing to files of sysfs.

Each function takes the text, checks it against the state of the GPU in the
order in which the kernel and the vendor's driver do, and changes the state or
raises the error that a writer would see.
"""

import dataclasses
import errno
import typing
import uuid as uuidlib

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import memory_tree
from nova_vgpu.sandbox import mig
from nova_vgpu.sandbox import tree

if typing.TYPE_CHECKING:
    from nova_vgpu.sandbox import kernel

_MOST_VFS = 0xFFFF
_UUID_LENGTH = 36
_QUOTA = 'vram_quota'
_MIB = 1 << 20
# What the hardware allots at a time. (Linux kernel, xe_lmtt_page_size().)
_ALIGNMENT = 2 * _MIB


class BlocksForever(BaseException):
    """A write that would block in the kernel.

    It waits until a guest releases a device. Do not catch it: the writer would
    hang.
    """


def store(
    its_kernel: 'kernel.Kernel', what: memory_tree.Path, text: str
) -> None:
    """Apply the effect of writing a text to a file.

    :raises OSError: as the kernel would.
    """
    match what:
        case ('sriov_numvfs', address):
            _store_numvfs(its_kernel, address, text)
        case ('current_vgpu_type', address):
            _store_type(its_kernel, address, text)
        case ('profile', address, name, vf):
            _store_profile(its_kernel, address, name, int(vf), text)
        case ('create', address, type_id):
            _create(its_kernel, address, type_id, text)
        case ('remove', uuid):
            _remove(its_kernel, uuid, text)
        case ('driver_override', address):
            its_kernel.set_override(_parse(address), text.strip() or None)
        case ('bind', driver):
            _bind(its_kernel, driver, text)
        case ('unbind', driver):
            _unbind(its_kernel, driver, text)
        case _:
            _probe(its_kernel, text)


def enable_vfs(
    its_kernel: 'kernel.Kernel', gpu: host.GPU, number: int
) -> None:
    """Enable VFs, which appear after a while."""
    with its_kernel.effect(f'{number} VFs on {gpu.address}'):
        its_kernel.update(gpu.address, profile=_provision(gpu, number))
        its_kernel.expect_vfs(gpu.address, number)


def disable_vfs(its_kernel: 'kernel.Kernel', gpu: host.GPU) -> None:
    """Disable the VFs, with all that is on them.

    :raises OSError: if a running guest uses one of them.
    """
    if its_kernel.is_any_used(gpu):
        raise memory_tree.make_error(errno.EBUSY, str(gpu.address))
    with its_kernel.effect(f'no VFs on {gpu.address}'):
        its_kernel.expect_nothing(gpu.address)
        its_kernel.update(
            gpu.address, vfs=0, created=(), profile=(), gpu_instances=()
        )


def _store_numvfs(its: 'kernel.Kernel', address: str, text: str) -> None:
    """The order of the checks is that of sriov_numvfs_store() in Linux."""
    gpu = its.get(_parse(address))
    number = _parse_number(text, address)
    if number > min(gpu.board.total_vfs, _MOST_VFS):
        raise memory_tree.make_error(errno.ERANGE, address)
    enabled = its.count_vfs(gpu.address)
    if number == enabled:
        return
    configures = gpu.bound_driver == tree.STUB or (
        gpu.bound_driver == gpu.board.driver
        and gpu.raw_numvfs
        and not gpu.board.partitions
    )
    if not configures:
        raise memory_tree.make_error(errno.ENOENT, address)
    if number == 0:
        disable_vfs(its, gpu)
        return
    if enabled:
        raise memory_tree.make_error(errno.EBUSY, address)
    enable_vfs(its, gpu, number)


def _provision(gpu: host.GPU, vfs: int) -> tuple[tuple[str, int, int], ...]:
    """Equal parts of the memory, unless any VF has a quota already."""
    is_custom = any(
        name == _QUOTA and number for name, _, number in gpu.profile
    )
    if is_custom or not gpu.board.vf_memory_mib:
        return gpu.profile
    each = gpu.board.vf_memory_mib * _MIB // vfs // _ALIGNMENT * _ALIGNMENT
    quotas = tuple((_QUOTA, vf, each) for vf in range(1, vfs + 1))
    others = (entry for entry in gpu.profile if entry[0] != _QUOTA)
    return (*others, *quotas)


def _store_profile(
    its: 'kernel.Kernel', address: str, name: str, vf: int, text: str
) -> None:
    gpu = its.get(_parse(address))
    number = _parse_number(text, address)
    others = tuple(p for p in gpu.profile if p[:2] != (name, vf))
    if name == _QUOTA:
        number = -(-number // _ALIGNMENT) * _ALIGNMENT
        taken = sum(mine for file, _, mine in others if file == name)
        if taken + number > gpu.board.vf_memory_mib * _MIB:
            raise memory_tree.make_error(errno.ENOSPC, address)
    with its.effect(f'{name} {number} of VF {vf} of {address}'):
        its.update(gpu.address, profile=(*others, (name, vf, number)))


def _store_type(its: 'kernel.Kernel', address: str, text: str) -> None:
    number = _parse_number(text, address)
    gpu, vf = its.find(_parse(address))
    if its.in_use(_parse(address).node_device_name):
        raise memory_tree.make_error(errno.EBUSY, address)
    current = gpu.on(vf)
    if number == 0:
        if current:
            left = tuple(c for c in gpu.created if c.vf != vf)
            with its.effect(f'no type on {address}'):
                its.update(gpu.address, created=left)
        return
    found = [t for t in gpu.board.types if t.number == number]
    # A type cannot be changed into another; it must be cleared first.
    if not found or current:
        raise memory_tree.make_error(errno.EINVAL, address)
    _add(its, gpu, host.Created(found[0].id, vf), found[0], address)


def _create(
    its: 'kernel.Kernel', address: str, type_id: str, text: str
) -> None:
    gpu, vf = its.find(_parse(address))
    uuid = _parse_uuid(text)
    if uuid is None:
        raise memory_tree.make_error(errno.EINVAL, address)
    if its.find_mdev(uuid) is not None:
        raise memory_tree.make_error(errno.EEXIST, uuid)
    board_type = next(t for t in gpu.board.types if t.id == type_id)
    created = host.Created(type_id, vf, uuid)
    _add(its, gpu, created, board_type, address)


def _add(
    its: 'kernel.Kernel',
    gpu: host.GPU,
    created: host.Created,
    board_type: boards.BoardType,
    where: str,
) -> None:
    if gpu.mig_mode and not gpu.rooms(board_type):
        raise memory_tree.make_error(errno.EIO, where)
    if not gpu.available(board_type, created.vf):
        raise memory_tree.make_error(errno.ENOSPC, where)
    if mig.is_backed(board_type) and not (gpu.instances or gpu.mig_mode):
        raise memory_tree.make_error(errno.EIO, where)
    if gpu.mig_mode:
        # One that has vGPUs already comes first.
        rooms = {i: n for i, n in gpu.rooms(board_type).items() if n}
        chosen = min(rooms, key=lambda instance: (rooms[instance], instance))
        created = dataclasses.replace(created, gpu_instance=chosen)
    with its.effect(f'{created.uuid or "type"} {created.type_id} on {where}'):
        its.update(gpu.address, created=(*gpu.pinned(), created))


def _remove(its: 'kernel.Kernel', uuid: str, text: str) -> None:
    gpu = its.find_mdev(uuid)
    if gpu is None:
        raise memory_tree.make_error(errno.ENODEV, uuid)
    if _parse_number(text, uuid) == 0:
        return
    if its.in_use(uuid):
        raise BlocksForever(f'removal of mdev {uuid}, which a guest uses')
    left = tuple(c for c in gpu.pinned() if c.uuid != uuid)
    with its.effect(f'no {uuid}'):
        its.update(gpu.address, created=left)


def _bind(its: 'kernel.Kernel', driver: str, text: str) -> None:
    gpu = _find_physical(its, text)
    wanted = its.overrides.get(gpu.address, gpu.board.driver)
    if driver != wanted:
        raise memory_tree.make_error(errno.ENODEV, text.strip())
    if gpu.bound_driver is not None:
        raise memory_tree.make_error(errno.EBUSY, text.strip())
    _attach(its, gpu, driver)


def _unbind(its: 'kernel.Kernel', driver: str, text: str) -> None:
    gpu = _find_physical(its, text)
    if gpu.bound_driver != driver:
        raise memory_tree.make_error(errno.ENODEV, text.strip())
    if its.is_any_used(gpu):
        raise BlocksForever(f'unbinding {gpu.address}, which a guest uses')
    with its.effect(f'{gpu.address} without {driver}'):
        its.lose_types(gpu.address)
        # A driver that enables VFs takes them with it.
        vfs = 0 if gpu.board.partitions else gpu.vfs
        its.update(gpu.address, driver=None, vfs=vfs)


def _probe(its: 'kernel.Kernel', text: str) -> None:
    gpu = _find_physical(its, text)
    if gpu.bound_driver is None:
        wanted = its.overrides.get(gpu.address, gpu.board.driver)
        _attach(its, gpu, wanted)


def _attach(its: 'kernel.Kernel', gpu: host.GPU, driver: str) -> None:
    with its.effect(f'{gpu.address} on {driver}'):
        its.bind(gpu.address, driver)


def _find_physical(its: 'kernel.Kernel', text: str) -> host.GPU:
    """The GPU that a text names; only whole GPUs change their drivers here."""
    name = text.strip()
    for gpu in its.gpus:
        if str(gpu.address) == name:
            return gpu
    raise memory_tree.make_error(errno.ENODEV, name)


def _parse(address: str) -> values.PciAddress:
    return values.PciAddress.parse(address)


def _parse_number(text: str, where: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        raise memory_tree.make_error(errno.EINVAL, where)
    return int(digits)


def _parse_uuid(text: str) -> str | None:
    """The kernel accepts one spelling, with or without a line feed."""
    line = text.removesuffix('\n')
    if len(line) != _UUID_LENGTH:
        return None
    try:
        return str(uuidlib.UUID(line))
    except ValueError:
        return None


def renumber(board: boards.Board) -> boards.Board:
    """The board under a driver of another release.

    Every numbered type gets the number of its neighbour: an id now means
    another type. Names stay.
    """
    numbered = [t for t in board.types if t.number]
    others = {
        old.name: new
        for old, new in zip(numbered, numbered[1:] + numbered[:1], strict=True)
    }
    return dataclasses.replace(
        board,
        types=tuple(
            dataclasses.replace(
                t, id=others[t.name].id, number=others[t.name].number
            )
            if t.number
            else t
            for t in board.types
        ),
    )
