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

"""The description of a simulated host, and the rules that it follows."""

from collections.abc import Iterator
import dataclasses
import uuid

from nova_vgpu import values
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import mig

#: What Linux 7.0 shows of virtual functions that it provisions.
ADMIN = ('vram_quota', 'exec_quantum_ms', 'preempt_timeout_us')

_NAMESPACE = uuid.UUID('5d1f8f5e-6d5c-4f0e-9f5a-3c1c5a6f0b11')


@dataclasses.dataclass(frozen=True, slots=True)
class Created:
    """A vGPU on a simulated GPU; ``vf`` counts its VFs from 0.

    An mdev without a UUID gets one that depends on its place. In MIG mode it
    is on a GPU instance.
    """

    type_id: str
    vf: int | None = None
    uuid: str | None = None
    gpu_instance: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """Where a board is: below these bridges, from the root port down.

    ``ports`` are the names of a network card's ports, ``config`` is the
    configuration space of the board; None for what sysfs does not show.
    """

    behind: tuple[values.PciAddress, ...] = ()
    numa_node: int | None = None
    iommu_group: int | None = None
    ports: tuple[str, ...] = ()
    config: bytes | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GPU:
    """A board in a slot; other cards and bridges are boards, too.

    ``vendor_vfio`` selects the framework without mdevs; ``driver`` None is a
    board without one; ``types_ready`` False one whose driver does not show its
    types yet. ``raw_numvfs`` False is a driver that requires its own tool for
    VFs; ``mixed`` is the mode for vGPUs of several sizes; with
    ``instances``, the GPU has instances for types that are backed by MIG. To
    have the rules of GPU instances, ``mig_mode`` is on, with the ``profiles``
    and the ``gpu_instances`` of the GPU; without the mode it has its
    time-sliced types only. ``mig_pending`` is the mode after the next reset,
    if that is another; if ``mig_is_lost``, a reboot turns the mode off.
    ``has_process`` if a process of the host uses the GPU, and no instance.

    Without ``iommu``, no function has an IOMMU group. Otherwise the functions
    of a slot share that of their slot, as without ACS between them, and each
    VF has its own. ``display`` is the GPU with the console of the host.

    ``vf_driver`` is the driver of the VFs. ``admin`` are the files of
    ``sriov_admin`` that the kernel has, where it provisions VFs;
    ``profile`` has what is in them: the file, the VF, the number. ``vf_num``
    is the option of a driver that enables VFs when it is loaded, ``partition``
    how the GPU is partitioned then.
    """

    address: values.PciAddress
    board: boards.Board
    vfs: int = 0
    vendor_vfio: bool = False
    driver: str | None = 'default'
    types_ready: bool = True
    created: tuple[Created, ...] = ()
    raw_numvfs: bool = True
    mixed: bool = False
    instances: bool = False
    slot: Slot = Slot()
    iommu: bool = True
    display: bool = False
    vf_driver: str | None = 'default'
    admin: tuple[str, ...] = ADMIN
    profile: tuple[tuple[str, int, int], ...] = ()
    vf_num: int = 0
    partition: str = ''
    mig_mode: bool = False
    profiles: tuple[mig.Profile, ...] = ()
    gpu_instances: tuple[mig.Instance, ...] = ()
    mig_pending: bool | None = None
    mig_is_lost: bool = False
    has_process: bool = False

    def read_profile(self, name: str, vf: int) -> int:
        """What is in a file of a virtual function, counted from 1."""
        found = (n for f, v, n in self.profile if (f, v) == (name, vf))
        return next(found, 0)

    def group_of(self, function: values.PciAddress) -> int | None:
        """The IOMMU group of the card's function, or of one of its VFs."""
        if not self.iommu:
            return None
        number = function.domain << 16 | function.routing_id
        if function != self.address:
            return number
        group = self.slot.iommu_group
        return number & ~7 if group is None else group

    @property
    def bound_driver(self) -> str | None:
        return self.board.driver if self.driver == 'default' else self.driver

    @property
    def bound_vf_driver(self) -> str | None:
        default = self.vf_driver == 'default'
        return self.board.driver if default else self.vf_driver

    @property
    def vf_addresses(self) -> tuple[values.PciAddress, ...]:
        board = self.board
        every = values.Sriov(
            board.total_vfs, board.vf_offset, board.vf_stride
        ).addresses(self.address)
        return every[: self.vfs]

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that it can have with its number of VFs."""
        return dict(self.board.partitions).get(self.vfs, ())

    def loaded(self) -> 'GPU':
        """The same after its driver is loaded, with VFs if that does it.

        The partition is stored, and lost if the number of VFs changes.
        (gim_shim/gim_config.c, gim_conf_clear_saved_persist_config().)
        """
        if not self.board.partitions:
            return self
        loaded = dataclasses.replace(self, vfs=self.vf_num)
        if loaded.partition not in loaded.partitions:
            default = next(iter(loaded.partitions), '')
            return dataclasses.replace(loaded, partition=default)
        return loaded

    @property
    def types_on_pf(self) -> bool:
        return bool(self.types_ready and not self.board.total_vfs)

    @property
    def types_on_vfs(self) -> bool:
        return bool(self.types_ready and self.board.total_vfs)

    def available(self, wanted: boards.BoardType, vf: int | None) -> int:
        """How many more of a type fit, on the GPU or on one of its VFs."""
        left = self.left(wanted)
        if vf is None:
            return left
        return 0 if self.on(vf) else min(left, 1)

    def left(self, wanted: boards.BoardType) -> int:
        """How many more of a type fit into the GPU's memory."""
        if self.mig_mode:
            return sum(self.rooms(wanted).values())
        if self.profiles and mig.is_backed(wanted):
            return 0
        sizes = {t.id: t.framebuffer_mib for t in self.board.types}
        in_use = [sizes[created.type_id] for created in self.created]
        if not self.mixed:
            if any(size != wanted.framebuffer_mib for size in in_use):
                return 0  # one size per GPU
            return max(wanted.maximum - len(in_use), 0)
        # Boards do not show their memory; the biggest type takes all of it.
        free = max(sizes.values()) - sum(in_use)
        alike = in_use.count(wanted.framebuffer_mib)
        fitting = free // max(wanted.framebuffer_mib, 1)
        return max(min(fitting, wanted.maximum - alike), 0)

    def rooms(self, wanted: boards.BoardType) -> dict[int, int]:
        """How many more of a type fit into each GPU instance of its size."""
        profile = mig.find_profile(self.profiles, wanted)
        sizes = {t.id: t.framebuffer_mib for t in self.board.types}
        found = {}
        for instance in self.gpu_instances:
            if profile is None or instance.profile != profile:
                continue
            if not instance.is_complete:
                continue
            held = [
                sizes[created.type_id]
                for created in self.created
                if created.gpu_instance == instance.id
            ]
            if all(size == wanted.framebuffer_mib for size in held):
                room = mig.count_each(profile, wanted) - len(held)
                found[instance.id] = max(room, 0)
        return found

    def name_of(self, created: Created) -> str:
        """The UUID of an mdev, or the name of its function in libvirt."""
        if created.uuid is not None or created.vf is None:
            return str(created.uuid)
        return self.vf_addresses[created.vf].node_device_name

    def on(self, vf: int | None) -> tuple[Created, ...]:
        return tuple(created for created in self.created if created.vf == vf)

    def pinned(self) -> tuple[Created, ...]:
        """Its vGPUs, with UUIDs that do not depend on their places."""
        if self.vendor_vfio:
            return self.created
        return tuple(
            dataclasses.replace(created, uuid=self._uuid(order, created))
            for order, created in enumerate(self.created)
        )

    def mdevs(self, vf: int | None) -> Iterator[tuple[str, str]]:
        """UUID and type id of the mdevs on the GPU or on one of its VFs."""
        for order, created in enumerate(self.created):
            if created.vf == vf and not self.vendor_vfio:
                yield self._uuid(order, created), created.type_id

    def _uuid(self, order: int, created: Created) -> str:
        key = f'{self.address}/{order}'
        return created.uuid or str(uuid.uuid5(_NAMESPACE, key))


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedHost:
    """GPUs and other cards; with the kernel's sample parent if asked for.

    ``numa_nodes`` is 0 for a kernel that does not know of any.
    """

    gpus: tuple[GPU, ...] = ()
    mtty: bool = False
    numa_nodes: int = 0


def demo_host() -> SimulatedHost:
    """One GPU of every kind that an operator meets."""
    parse = values.PciAddress.parse
    return SimulatedHost(
        (
            GPU(parse('0000:41:00.0'), boards.A40, vfs=32),
            GPU(parse('0000:84:00.0'), boards.T4),
            GPU(
                parse('0000:85:00.0'),
                boards.T4,
                created=(Created('nvidia-231'), Created('nvidia-231')),
            ),
            GPU(parse('0000:c1:00.0'), boards.A40),
            GPU(parse('0000:e1:00.0'), boards.NETWORK_CARD),
            GPU(
                parse('0001:c8:00.0'),
                boards.L40S,
                vfs=32,
                vendor_vfio=True,
                created=(Created('nvidia-1155', vf=0),),
            ),
        )
    )
