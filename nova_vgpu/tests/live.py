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


"""A simulated machine, and the life cycle on it."""

from collections.abc import Iterator
import contextlib
import dataclasses
import itertools
import os
import pathlib
import tempfile
import typing
import uuid

import fixtures

from nova_vgpu import values
from nova_vgpu.cmd import main
from nova_vgpu.conf import devices
from nova_vgpu.conf import opts
from nova_vgpu.host import mdevs
from nova_vgpu.host import state
from nova_vgpu.host import state_files
from nova_vgpu.host import sysfs
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import machine as machines
from nova_vgpu.sandbox import modes
from nova_vgpu.tests import hosts

T4 = '0000:84:00.0'
A10 = '0000:41:00.0'
L40S = '0000:c1:00.0'


def shrink(board: boards.Board, vfs: int, *names: str) -> boards.Board:
    """A board with few functions and types, so that much can be tried."""
    types = tuple(t for t in board.types if str(t.name).split()[-1] in names)
    return dataclasses.replace(board, types=types, total_vfs=vfs)


SMALL_T4 = shrink(boards.T4, 0, 'T4-4Q', 'T4-8Q', 'T4-16Q')
SMALL_A10 = shrink(boards.A10, 4, 'A10-8Q', 'A10-12Q', 'A10-24Q')
SMALL_L40S = shrink(boards.L40S, 5, 'L40S-12Q', 'L40S-24Q', 'L40S-48Q')


def bare_gpus() -> tuple[simulation.GPU, ...]:
    """One GPU of every framework, as after a reboot."""
    return (
        hosts.gpu(T4, SMALL_T4),
        hosts.gpu(A10, SMALL_A10),
        hosts.gpu(L40S, SMALL_L40S, vendor_vfio=True),
    )


def declare(text: str) -> values.Declaration:
    """What a nova.conf with this in it declares."""
    from oslo_config import cfg

    with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
        file.write(text)
        file.flush()
        conf = cfg.ConfigOpts()
        opts.register_opts(conf)
        conf([], default_config_files=[file.name])
        declaration, problems = devices.read_declaration(conf)
    assert not problems, problems
    return declaration


ALL_THREE = f"""
[devices]
enabled_vgpu_types = T4-4Q, A10-12Q, L40S-24Q
[vgpu_T4-4Q]
device_addresses = {T4}
[vgpu_A10-12Q]
device_addresses = {A10}
[vgpu_L40S-24Q]
device_addresses = {L40S}
"""


class Recorder:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.events: list[tuple[str, str]] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def begin(self, step: values.Step) -> None:
        self.events.append(('begin', str(step)))

    def finish(self, step: values.Step, event: str) -> None:
        self.events.append((event, str(step)))


class LiveHost(fixtures.Fixture):
    """A simulated machine with a state directory of its own."""

    def __init__(self, *gpus: simulation.GPU) -> None:
        self.machine = machines.Machine(*gpus)

    def _setUp(self) -> None:
        # In memory where that can be: waiting for a disk is not tested here.
        shm = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
        directory = tempfile.TemporaryDirectory(dir=shm)
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        (self.path / 'locks').mkdir()
        self.access = self.make_host_access()

    def number_uuids(self) -> None:
        """Let UUIDs be the same in every run, one after the other."""
        numbers = itertools.count(1)
        self.access = self.make_host_access(
            new_uuid=lambda: str(uuid.UUID(int=next(numbers)))
        )

    def make_host_access(self, **others: typing.Any) -> host_access.HostAccess:
        kernel = self.machine.kernel
        arguments: dict[str, typing.Any] = {
            'tree': kernel.files,
            'connect': self.connect,
            'state': state.StateDirectory(str(self.path / 'state')),
            'locks': str(self.path / 'locks'),
            'run': self.machine.tools.run,
            'sleep': kernel.clock.sleep,
            'now': kernel.clock.now,
            'complete': self.complete,
        }
        if any(gpu.profiles for gpu in kernel.get_gpus()):
            # Without one that has MIG, what NVML tells makes no difference.
            arguments['read_modes'] = lambda _host: modes.read_modes(kernel)
        return host_access.HostAccess(**(arguments | others))

    def complete(self, host: values.Host) -> values.Host:
        """The names that come with the driver, in a file of the vendor."""
        names = tuple(
            (board_type.id, board_type.name)
            for card in self.machine.kernel.gpus
            for board_type in card.board.types
            if board_type.name is not None
        )
        return dataclasses.replace(host, type_names=names)

    @contextlib.contextmanager
    def connect(self) -> Iterator[typing.Any]:
        yield self.machine.libvirt

    def apply(self, text: str, gpu: str | None = None) -> step_runner.Outcome:
        return apply.apply(self.access, self.load(text), Recorder(), gpu)

    def load(self, text: str) -> values.Configuration:
        """A nova.conf with this in it, and what is stored."""
        declared = values.Configuration(declare(text))
        return state_files.recall(declared, self.access.state.path)

    def restore(self) -> step_runner.Outcome | None:
        return apply.restore(self.access, Recorder())

    def read(self) -> values.Host:
        return sysfs.read_host(self.machine.kernel.files)

    def describe(self) -> dict[str, object]:
        """All that an apply can change, in short."""
        described: dict[str, object] = {}
        for card in self.machine.kernel.get_gpus():
            described[f'{card.address} mixed'] = card.mixed
            described[f'{card.address} driver'] = card.bound_driver
            described[f'{card.address} VFs'] = card.vfs
            if card.profiles:
                described[f'{card.address} MIG mode'] = card.mig_mode
            described[f'{card.address} partition'] = card.partition
            described[f'{card.address} GPU instances'] = sorted(
                (i.profile.name, i.is_complete) for i in card.gpu_instances
            )
            if card.board.vf_memory_mib:
                profiles = sorted(entry for entry in card.profile if entry[2])
                described[f'{card.address} profiles'] = profiles
            names = {t.id: t.name for t in card.board.types}
            for created in card.pinned():
                name = created.uuid
                if name is None and created.vf is not None:
                    name = card.vf_addresses[created.vf].node_device_name
                described[str(name)] = names[created.type_id]
        for mdev in self.machine.libvirt.mdevs.devices.values():
            described[f'{mdev.uuid} defined'] = bool(mdev.isPersistent())
        return described

    def vgpus(self, gpu: str) -> dict[str, str]:
        """The vGPUs of a GPU, with the names of their types."""
        (found,) = (g for g in self.read().gpus if str(g) == gpu)
        return {v.name: self._name_of(v) for v in found.all_vgpus}

    def set_type(self, address: str, type_name: str) -> None:
        """Make a vGPU of a function, as nova-compute does it."""
        type_id = self._find_type(address, type_name).id
        self._types.set_type(address, type_id)

    def clear_type(self, address: str) -> None:
        self._types.set_type(address, None)

    @property
    def _types(self) -> nvidia.NvidiaTypes:
        return nvidia.NvidiaTypes(self.machine.kernel.files)

    def stop_mdev(self, uuid: str) -> None:
        """Leave nothing of an mdev but its definition."""
        self._find_mdev(uuid).destroy()

    def undefine_mdev(self, uuid: str) -> None:
        self._find_mdev(uuid).undefine()

    def _find_mdev(self, uuid: str) -> typing.Any:
        for mdev in self.machine.libvirt.mdevs.devices.values():
            if mdev.uuid == uuid:
                return mdev
        raise KeyError(uuid)

    def create_mdev(
        self,
        address: str,
        type_name: str,
        state: values.MdevState = values.MdevState.PERSISTENT,
    ) -> str:
        """Create an mdev on a function, as nova-compute does it."""
        parent = values.PciAddress.parse(address).node_device_name
        made = self.access.new_uuid()
        type_id = self._find_type(address, type_name).id
        mdevs.set_state(
            self.machine.libvirt,
            values.Mdev(made, parent, type_id, state),
        )
        return made

    def boot(self, name: str, device: str, type_name: str) -> None:
        """Let a server run with a vGPU of a function or GPU."""
        (gpu,) = (
            gpu
            for gpu in self.read().gpus
            if device in (str(gpu), *(str(vf.address) for vf in gpu.vfs))
        )
        libvirt = self.machine.libvirt
        if gpu.framework is values.Framework.VENDOR_VFIO:
            self.set_type(device, type_name)
            libvirt.define_guest(name, functions={device: type_name})
        else:
            uuid = self.create_mdev(device, type_name)
            libvirt.define_guest(name, mdevs={uuid: type_name})
        libvirt.start_guest(name)

    def _find_type(self, address: str, name: str) -> boards.BoardType:
        card, _ = self.machine.kernel.find(values.PciAddress.parse(address))
        (found,) = (t for t in card.board.types if t.name == name)
        return found

    def _name_of(self, vgpu: values.VGPU) -> str:
        for card in self.machine.kernel.gpus:
            for board_type in card.board.types:
                if board_type.id == vgpu.type_id:
                    return str(board_type.name)
        return vgpu.type_id


class Program(main.NovaVGPU):
    """The program on a simulated machine."""

    def __init__(self, host: LiveHost, **streams: typing.Any) -> None:
        self._host = host
        super().__init__(**streams)

    def initialize_app(self, argv: list[str]) -> None:
        super().initialize_app(argv)
        self.options.state_dir = str(self._host.path / 'state')

    def read_host(self, source: object) -> values.Host:
        return self._host.complete(self._host.read())

    def make_host_access(
        self, timeout: float, sriov_manage: str, may_change: bool = True
    ) -> host_access.HostAccess:
        return self._host.make_host_access(
            timeout=timeout, sriov_manage=sriov_manage
        )


def fresh(card: simulation.GPU, kernel: typing.Any) -> simulation.GPU:
    """A card as it comes, with the numbers of the driver that runs now."""
    now = {gpu.board.device: gpu.board for gpu in kernel.gpus}
    return dataclasses.replace(
        card,
        board=now.get(card.board.device, card.board),
        vfs=0,
        created=(),
        mixed=False,
        driver='default',
        types_ready=True,
    )
