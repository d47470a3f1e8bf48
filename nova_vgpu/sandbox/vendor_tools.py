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

"""The vendor's programs for a simulated kernel.

``sriov-manage`` enables VFs with a stub driver: the GPU is unbound from its
own driver, gets its VFs on ``pci-pf-stub`` and is bound to its driver again.
If the program is killed in between, the GPU stays on the stub. That removes
its GPU instances. ``nvidia-smi`` switches MIG mode and the mode for vGPUs of
several sizes, and creates and removes GPU instances.
"""

from collections.abc import Callable
from collections.abc import Sequence
import copy
import dataclasses
import os

from nova_vgpu import values
from nova_vgpu.host import tools
from nova_vgpu.sandbox import host
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import nvidia_smi_mig
from nova_vgpu.sandbox import stores
from nova_vgpu.sandbox import tree

SRIOV_MANAGE = 'sriov-manage'
NVIDIA_SMI = 'nvidia-smi'

_NVIDIA = 0x10DE
_LOCKED = 'Cannot obtain unbindLock for {}'


@dataclasses.dataclass
class Behaviour:
    """Faults of the programs."""

    #: Programs that are not installed, by their last names.
    missing: set[str] = dataclasses.field(default_factory=set)
    #: Programs that hang until their timeout, and change nothing.
    hanging: set[str] = dataclasses.field(default_factory=set)
    #: Programs that report success and change nothing.
    idle: set[str] = dataclasses.field(default_factory=set)
    #: How often another process has the GPU open.
    locked: int = 0
    #: How often nvidia-smi finds the GPU in use by another process.
    in_use: int = 0
    #: How often something that NVML does not show has the GPU open, so that
    #: MIG mode is pending after it was switched.
    pends: int = 0
    #: How often sriov-manage fails when the GPU is on the other driver.
    abandons: int = 0


class VendorTools:
    """Replaces :func:`nova_vgpu.host.tools.run`."""

    def __init__(self, its_kernel: kernel.Kernel) -> None:
        self._kernel = its_kernel
        self.behaviour = Behaviour()

    def run(
        self,
        argv: Sequence[str],
        seconds: float,
        keep: Sequence[int] = (),
    ) -> tools.Finished:
        """Run one of the programs.

        :raises MissingError: if the program does not exist.
        :raises TimedOut: if it was told to hang.
        """
        name = os.path.basename(argv[0])
        known: dict[str, Callable[[Sequence[str]], tools.Finished]] = {
            SRIOV_MANAGE: self._manage,
            NVIDIA_SMI: self._switch,
        }
        if name not in known or name in self.behaviour.missing:
            raise tools.MissingError(argv[0], 'no such file or directory')
        if name in self.behaviour.hanging:
            self._kernel.clock.sleep(seconds)
            raise tools.TimedOut(argv[0], seconds)
        if name in self.behaviour.idle:
            return tools.Finished(0, '')
        with self._kernel.lock:
            return known[name](argv[1:])

    # -- sriov-manage -------------------------------------------------------

    def _manage(self, arguments: Sequence[str]) -> tools.Finished:
        match list(arguments):
            case ['-e' | '-d' as action, which]:
                chosen = self._choose(which)
            case _:
                return tools.Finished(1, 'usage: sriov-manage -e|-d GPU|ALL')
        if not chosen:
            return tools.Finished(1, f'{which} is not a GPU with VFs')
        output = []
        for address in chosen:
            gpu = self._kernel.get(address)
            done = self._enable(gpu) if action == '-e' else self._disable(gpu)
            output.append(done.output)
            if done.code:
                return tools.Finished(done.code, '\n'.join(output))
        return tools.Finished(0, '\n'.join(output))

    def _choose(self, which: str) -> list[values.PciAddress]:
        able = [
            gpu.address
            for gpu in self._kernel.get_gpus()
            if gpu.board.vendor == _NVIDIA and gpu.board.total_vfs
        ]
        if which == 'ALL':
            return able
        try:
            wanted = values.PciAddress.parse(which)
        except values.MalformedAddress:
            return []
        return [address for address in able if address == wanted]

    def _enable(self, gpu: host.GPU) -> tools.Finished:
        address = gpu.address
        if refused := self._refuse(gpu):
            return refused
        if self._kernel.count_vfs(address):
            return tools.Finished(0, f'VFs are already enabled on {address}')
        with self._kernel.effect(f'{address} on {tree.STUB}'):
            self._kernel.lose_types(address)
            self._kernel.update(address, driver=tree.STUB)
        if self.behaviour.abandons:
            self.behaviour.abandons -= 1
            return tools.Finished(1, f'Failed to enable VFs on {address}')
        stores.enable_vfs(self._kernel, gpu, gpu.board.total_vfs)
        with self._kernel.effect(f'{address} on {gpu.board.driver}'):
            self._kernel.bind(address, gpu.board.driver)
        return tools.Finished(0, f'Enabling VFs on {address}')

    def _disable(self, gpu: host.GPU) -> tools.Finished:
        address = gpu.address
        if refused := self._refuse(gpu):
            return refused
        if not self._kernel.count_vfs(address):
            return tools.Finished(0, f'VFs are already disabled on {address}')
        if self._kernel.is_any_used(gpu):
            return tools.Finished(1, f'{address} is in use')
        stores.disable_vfs(self._kernel, gpu)
        return tools.Finished(0, f'Disabling VFs on {address}')

    def _refuse(self, gpu: host.GPU) -> tools.Finished | None:
        if gpu.bound_driver != gpu.board.driver:
            return tools.Finished(
                1, f'{gpu.address} is not bound to {gpu.board.driver}'
            )
        if self.behaviour.locked:
            self.behaviour.locked -= 1
            return tools.Finished(1, _LOCKED.format(gpu.address))
        return None

    # -- nvidia-smi ---------------------------------------------------------

    def _switch(self, arguments: Sequence[str]) -> tools.Finished:
        match list(arguments):
            case ['-i', which, *rest] | [*rest, '-i', which]:
                pass
            case _:
                return tools.Finished(2, 'Invalid combination of arguments')
        # It sees only what is on the vendor's driver.
        seen = [
            gpu
            for gpu in self._kernel.get_gpus()
            if gpu.board.vendor == _NVIDIA
            and gpu.bound_driver == gpu.board.driver
            and _is(gpu.address, which)
        ]
        if not seen:
            return tools.Finished(6, 'No devices were found')
        (gpu,) = seen
        match rest:
            case ['vgpu', '-shm', '0' | '1' as mode]:
                return self._set_mixed(gpu, which, mode)
            case ['mig', *action]:
                return self._set_instances(gpu, action)
            case ['-mig', '0' | '1' as mode]:
                return self._set_mig_mode(gpu, mode == '1')
        return tools.Finished(2, 'Invalid combination of arguments')

    def _set_mig_mode(self, gpu: host.GPU, mode: bool) -> tools.Finished:
        if self.behaviour.in_use:
            self.behaviour.in_use -= 1
            return tools.Finished(19, 'In use by another client')
        is_open = bool(self.behaviour.pends)
        self.behaviour.pends = max(self.behaviour.pends - 1, 0)
        return nvidia_smi_mig.switch(self._kernel, gpu, mode, is_open)

    def _set_instances(
        self, gpu: host.GPU, action: Sequence[str]
    ) -> tools.Finished:
        if not gpu.mig_mode:
            return tools.Finished(3, 'MIG mode is not enabled')
        if self.behaviour.in_use:
            self.behaviour.in_use -= 1
            return tools.Finished(19, 'In use by another client')
        match list(action):
            case ['-cgi', profiles, '-C']:
                return nvidia_smi_mig.create(self._kernel, gpu, profiles)
            case ['-dci', '-gi', number]:
                return nvidia_smi_mig.destroy_compute(
                    self._kernel, gpu, number
                )
            case ['-dgi', '-gi', number]:
                return nvidia_smi_mig.destroy(self._kernel, gpu, number)
        return tools.Finished(2, 'Invalid combination of arguments')

    def _set_mixed(
        self, gpu: host.GPU, which: str, mode: str
    ) -> tools.Finished:
        mixed = mode == '1'
        if gpu.mig_mode:
            return tools.Finished(3, 'Not Supported')
        if gpu.mixed != mixed:
            if gpu.created:
                return tools.Finished(
                    1, f'Unable to set the mode of {which}: In use'
                )
            with self._kernel.effect(f'mixed sizes {mode} on {gpu.address}'):
                self._kernel.update(gpu.address, mixed=mixed)
        return tools.Finished(0, f'Set vGPU heterogeneous mode of {which}')

    # -- all of it ----------------------------------------------------------

    def snapshot(self) -> Behaviour:
        return copy.deepcopy(self.behaviour)

    def load(self, snapshot: Behaviour) -> None:
        self.behaviour = copy.deepcopy(snapshot)


def _is(address: values.PciAddress, text: str) -> bool:
    try:
        return values.PciAddress.parse(text) == address
    except values.MalformedAddress:
        return False
