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

"""What is done to a host, one step at a time.

A step says how something is before and after it; the other way round it is its
own undo. It holds nothing but words and numbers, so that it can be written
down before it is done and read again after a crash. Types go by their names
where those are known: what was written before a driver upgrade means the same
after it.
"""

import dataclasses

from nova_vgpu.values import host_hardware
from nova_vgpu.values import live_migration
from nova_vgpu.values import planning
from nova_vgpu.values import vgpu_usage


@dataclasses.dataclass(frozen=True, slots=True)
class RepairDriver:
    """Bind a GPU to its own driver: a tool that was cut off left it alone."""

    gpu: str

    def __str__(self) -> str:
        return f'bind GPU {self.gpu} to its own driver'


@dataclasses.dataclass(frozen=True, slots=True)
class SetVFs:
    """Enable all virtual functions of a GPU, or disable them."""

    gpu: str
    before: int
    after: int

    def __str__(self) -> str:
        if self.after:
            return f'enable the {self.after} VFs of GPU {self.gpu}'
        return f'disable the {self.before} VFs of GPU {self.gpu}'


@dataclasses.dataclass(frozen=True, slots=True)
class AwaitTypes:
    """Wait until the functions of a GPU show their types."""

    gpu: str

    def __str__(self) -> str:
        return f'wait for the vGPU types of GPU {self.gpu}'


@dataclasses.dataclass(frozen=True, slots=True)
class SetMigMode:
    """Turn the MIG mode of a GPU on or off, which resets the GPU."""

    gpu: str
    before: bool
    after: bool

    def __str__(self) -> str:
        return (
            f'turn {"on" if self.after else "off"} MIG mode of GPU {self.gpu}'
        )


@dataclasses.dataclass(frozen=True, slots=True)
class SetGPUInstances:
    """Create GPU instances of a profile, or remove some that are not used.

    ``before`` and ``after`` count all instances of the profile on the GPU.
    """

    gpu: str
    profile_id: int
    profile: str
    before: int
    after: int

    def __str__(self) -> str:
        number = abs(self.after - self.before)
        what = f'GPU instance{"" if number == 1 else "s"} of {self.profile}'
        if self.after > self.before:
            return f'create {number} {what} on GPU {self.gpu}'
        return f'remove {number} {what} from GPU {self.gpu}'


@dataclasses.dataclass(frozen=True, slots=True)
class SetHeterogeneous:
    """Let a GPU hold vGPUs of different sizes (heterogeneous mode) or not."""

    gpu: str
    before: bool
    after: bool

    def __str__(self) -> str:
        sizes = 'different sizes' if self.after else 'one size'
        return f'let GPU {self.gpu} hold vGPUs of {sizes}'


@dataclasses.dataclass(frozen=True, slots=True)
class SetVFProfile:
    """Set something in the profiles of the first virtual functions of a GPU.

    ``setting`` is the name of a field of
    :class:`~nova_vgpu.values.VFProfiles`; 0 leaves it to the driver.
    """

    gpu: str
    vfs: int
    setting: str
    before: int
    after: int

    def __str__(self) -> str:
        return (
            f'set {self.setting} of {self.vfs} VFs of GPU {self.gpu} to '
            f'{self.after}'
        )


@dataclasses.dataclass(frozen=True, slots=True)
class SetType:
    """Make a vGPU of a virtual function (vendor-specific VFIO), or clear it.

    No type is ``''``. One of the two is: a type is not changed into another.
    """

    gpu: str
    function: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.after:
            return f'set VF {self.function} to {self.after}'
        return f'clear VF {self.function}, which is {self.before}'


@dataclasses.dataclass(frozen=True, slots=True)
class SetMdev:
    """Define, start, stop or remove an mdev.

    ``parent`` is the node device name of the function that it is on.
    """

    gpu: str
    parent: str
    uuid: str
    type: str
    before: vgpu_usage.MdevState
    after: vgpu_usage.MdevState

    def __str__(self) -> str:
        if self.after.is_started:
            return f'start mdev {self.uuid} of {self.type}'
        if self.after.is_defined:
            return f'stop mdev {self.uuid}, which is {self.type}'
        return f'remove mdev {self.uuid}, which is {self.type}'


Step = (
    RepairDriver
    | SetVFs
    | AwaitTypes
    | SetMigMode
    | SetGPUInstances
    | SetHeterogeneous
    | SetVFProfile
    | SetType
    | SetMdev
)


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A change that is refused, because the device is in use."""

    gpu: str
    message: str
    cure: str

    def __str__(self) -> str:
        return f'{self.message} {self.cure}'


@dataclasses.dataclass(frozen=True, slots=True)
class GPUSteps:
    """What is to be done to one GPU, in this order, and what is not."""

    gpu: str
    steps: tuple[Step, ...] = ()
    refusals: tuple[Refusal, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class DriftReport:
    """A host, what is declared for it, and what an apply would do first.

    There are no ``gpu_steps`` if the configuration has to be corrected.
    ``last_apply`` is when the host was last changed by one, in seconds since
    the epoch. ``node`` is what Nova calls the compute node, if it was asked.
    ``guest_drivers`` are those of running guests, as far as the host knows,
    ``modes`` those of the GPUs, ``migration`` what they tell of live
    migration. ``settings`` are Nova's options about it.
    """

    plan: planning.Plan
    host: host_hardware.Host
    usage: vgpu_usage.Usage
    gpu_steps: tuple[GPUSteps, ...] = ()
    last_apply: float | None = None
    node: str | None = None
    guest_drivers: tuple[vgpu_usage.GuestDriver, ...] = ()
    modes: host_hardware.ModesRead = dataclasses.field(
        default_factory=host_hardware.ModesRead
    )
    software: live_migration.HostSoftware = live_migration.UNKNOWN_SOFTWARE
    migration: tuple[live_migration.GPUMigration, ...] = ()
    settings: live_migration.MigrationSettings = (
        live_migration.UNKNOWN_SETTINGS
    )

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(s for of_gpu in self.gpu_steps for s in of_gpu.steps)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return tuple(r for of_gpu in self.gpu_steps for r in of_gpu.refusals)
