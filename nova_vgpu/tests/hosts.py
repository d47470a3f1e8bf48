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

"""Hosts as values, for tests that are about neither files nor libvirt.

They come from the same descriptions as the simulated trees and XML, by another
way: a reader that is right reads exactly this.
"""

import dataclasses

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation

_GPU_CLASSES = (0x03, 0x12)


def make_host(*cards: simulation.GPU, mtty: bool = False) -> values.Host:
    """The host that these cards make up."""
    gpus = [make_gpu(card) for card in cards if _is_gpu(card)]
    if mtty:
        gpus.append(
            values.PhysicalGPU(
                'mtty_mtty',
                offers=tuple(
                    values.Offer(make_type(t), t.maximum)
                    for t in boards.MTTY_TYPES
                ),
            )
        )
    others = frozenset(card.address for card in cards if not _is_gpu(card))
    return values.Host(tuple(gpus), others)


def make_gpu(card: simulation.GPU) -> values.PhysicalGPU:
    """One GPU as it ought to be read."""
    board = card.board
    total = board.total_vfs
    return values.PhysicalGPU(
        name=card.address.node_device_name,
        address=card.address,
        ids=values.PciIds(board.vendor, board.device, *board.subsystem),
        driver=card.bound_driver,
        sriov=(
            values.Sriov(total, board.vf_offset, board.vf_stride)
            if total
            else None
        ),
        vfs=tuple(
            _make_vf(card, index, address)
            for index, address in enumerate(card.vf_addresses)
        ),
        offers=_mdev_offers(card, None) if card.types_on_pf else (),
        vgpus=_mdevs(card, None, card.address),
        vf_profiles=_make_vf_profiles(card),
    )


def _make_vf_profiles(card: simulation.GPU) -> values.VFProfiles | None:
    board = card.board
    if board.partitions and card.bound_driver == board.driver:
        names = dict.fromkeys(p.split('/')[0] for p in card.partitions)
        return values.VFProfiles(
            partitions=values.Partitions(card.partition or None, tuple(names))
        )
    is_divisible = board.vendor == 0x8086 and board.total_vfs
    if not is_divisible or card.bound_driver not in ('xe', 'i915'):
        return None
    shown = card.admin if board.vf_memory_mib else ()
    every = range(1, board.total_vfs + 1)
    vram_mib, exec_quantum_ms, preempt_timeout_us = (
        tuple(card.read_profile(name, vf) // unit for vf in every)
        if name in shown
        else ()
        for name, unit in (
            ('vram_quota', 1 << 20),
            ('exec_quantum_ms', 1),
            ('preempt_timeout_us', 1),
        )
    )
    return values.VFProfiles(vram_mib, exec_quantum_ms, preempt_timeout_us)


def make_type(board_type: boards.BoardType) -> values.VGPUType:
    """A type of an mdev parent, with what its description says."""
    facts = capabilities.parse_description(board_type.description)
    return values.VGPUType(board_type.id, board_type.name, facts)


def gpu(
    address: str,
    board: boards.Board,
    *created: str,
    vfs: int = 0,
    vendor_vfio: bool = False,
    driver: str | None = 'default',
    types_ready: bool = True,
) -> simulation.GPU:
    """A card in few words; ``created`` vGPUs go to the first VFs, if any."""
    return simulation.GPU(
        values.PciAddress.parse(address),
        board,
        vfs=vfs,
        vendor_vfio=vendor_vfio,
        driver=driver,
        types_ready=types_ready,
        created=tuple(
            simulation.Created(type_id, index if vfs else None)
            for index, type_id in enumerate(created)
        ),
    )


def mi300x(
    address: str, vfs: int = 8, partition: str = 'CPX/NPS4'
) -> simulation.GPU:
    """An MI300X with GIM, which has no driver for virtual functions."""
    return dataclasses.replace(
        gpu(address, boards.INSTINCT_MI300X, vfs=vfs),
        vf_num=vfs,
        partition=partition,
        vf_driver=None,
    )


def _is_gpu(card: simulation.GPU) -> bool:
    return card.board.pci_class >> 16 in _GPU_CLASSES


def _make_vf(
    card: simulation.GPU, index: int, address: values.PciAddress
) -> values.VirtualFunction:
    driver = card.bound_vf_driver
    if not card.types_on_vfs:
        return values.VirtualFunction(address, driver)
    if not card.vendor_vfio:
        return values.VirtualFunction(
            address,
            driver,
            _mdev_offers(card, index),
            _mdevs(card, index, address),
        )
    created = card.on(index)
    offers = tuple(
        values.Offer(values.VGPUType(t.id, t.name), 1)
        for t in card.board.types
        if card.available(t, index)
    )
    vgpus = tuple(
        values.VGPU(address.node_device_name, c.type_id) for c in created
    )
    return values.VirtualFunction(address, driver, offers, vgpus, True)


def _mdev_offers(
    card: simulation.GPU, vf: int | None
) -> tuple[values.Offer, ...]:
    return tuple(
        values.Offer(make_type(t), card.available(t, vf))
        for t in sorted(card.board.types, key=lambda t: t.id)
    )


def _mdevs(
    card: simulation.GPU, vf: int | None, address: values.PciAddress
) -> tuple[values.VGPU, ...]:
    return tuple(
        values.VGPU(address.node_device_name, type_id, uuid)
        for uuid, type_id in sorted(card.mdevs(vf))
    )
