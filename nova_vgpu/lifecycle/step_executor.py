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


"""The steps of a command, executed.

Steps that create or remove a vGPU are left to
:mod:`nova_vgpu.lifecycle.vgpu_executor`; here are those of a whole GPU: its
driver, its VFs and its mode. Everything is read again before it is touched.
"""

import errno
import functools
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import gpu_modes
from nova_vgpu.host import locks
from nova_vgpu.host import sysfs
from nova_vgpu.host import virtual_functions
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.host.type_backends import timeout
from nova_vgpu.host.type_backends import xe
from nova_vgpu.lifecycle import gpu_instance_executor
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import mig_mode_executor
from nova_vgpu.lifecycle import vgpu_executor
from nova_vgpu.reconcile import steps

_NVIDIA = 0x10DE
# How the kernel or its firmware says that a setting is too large.
_REFUSALS = frozenset({errno.ENOSPC, errno.ENOMEM, errno.EIO, errno.EINVAL})
_MANUALLY = '"nova-vgpu device disable"'


class Executor:
    """Executes steps, one after the other, on one host."""

    def __init__(
        self,
        access: host_access.HostAccess,
        connection: typing.Any,
        lock: int,
        warn: host_access.Warn,
    ) -> None:
        #: Whether steps are taken back: a vGPU that is only defined, then as
        #: now, does not keep VFs from being disabled.
        self.is_undoing = False
        self._access = access
        self._connection = connection
        self._lock = lock
        #: No server has chosen a vGPU that its guest does not show yet.
        self._exclude_claims = functools.partial(
            locks.hold_claims, access.locks, access.timeout, exclusive=True
        )
        self._read_usage = functools.partial(
            host_access.read_usage, access, connection, warn
        )
        self.vgpus = vgpu_executor.VGPUExecutor(
            vgpu_executor.VGPUAccess(
                access.tree,
                connection,
                self._set_type,
                self._exclude_claims,
                functools.partial(
                    locks.hold_creation, access.locks, access.timeout
                ),
                access.read_host,
                self._read_usage,
                access.timeout,
                access.sleep,
                access.now,
            )
        )
        self._gpu_instances = gpu_instance_executor.GPUInstanceExecutor(
            access, self._read_gpu, self._exclude_claims
        )
        self._mig_mode = mig_mode_executor.MigModeExecutor(
            access,
            self.vgpus.read_host,
            self._read_usage,
            self._exclude_claims,
            lock,
        )
        # What was reported as done, and is perhaps not there yet.
        self._reported: set[values.SetVFs] = set()

    def attempt(self, step: values.Step) -> bool:
        """Execute a step; False if it has to be tried again later.

        :raises StepFailed: if it cannot be done.
        :raises InUseError: if what it is about is in use.
        """
        try:
            match step:
                case values.RepairDriver():
                    self._repair_driver(step)
                case values.SetVFs():
                    return self._set_vfs(step)
                case values.AwaitTypes():
                    return self._has_types(step.gpu)
                case values.SetMigMode():
                    return self._mig_mode.attempt(step, self.is_undoing)
                case values.SetGPUInstances():
                    return self._gpu_instances.attempt(step)
                case values.SetHeterogeneous():
                    self._set_heterogeneous(step)
                case values.SetVFProfile():
                    self._set_profile(step)
                case values.SetType() | values.SetMdev():
                    self.vgpus.execute(step)
        except values.MalformedAddress as error:  # in a journal, by hand
            raise exception.StepFailed(f'{error}.', 'Correct it.') from error
        except exception.StepFailed as error:
            is_outdated = isinstance(error, exception.PlanOutdated)
            if is_outdated or not steps.is_backed_by_mig(step):
                raise
            raise exception.StepFailed(
                error.message,
                'A type that is backed by MIG needs a GPU instance of its '
                'size that no other vGPU has (nvidia-smi mig -lgi).',
            ) from error
        return True

    # -- virtual functions --------------------------------------------------

    def _repair_driver(self, step: values.RepairDriver) -> None:
        with self._exclude_claims():
            owners = self._read_usage().owners
            for name in sorted(self._read_gpu(step.gpu).functions):
                if name in owners and owners[name].running:
                    raise vgpu_executor.in_use(step.gpu, name, owners[name])
            virtual_functions.repair_driver(
                self._access.tree, values.PciAddress.parse(step.gpu)
            )

    def _set_vfs(self, step: values.SetVFs) -> bool:
        """Whether the functions are there, and not only reported."""
        gpu = self._read_gpu(step.gpu)
        if step not in self._reported and len(gpu.vfs) != step.after:
            try:
                self._change_vfs(step, gpu)
            except virtual_functions.NotYet:
                return False
            self._reported.add(step)
            gpu = self._read_gpu(step.gpu)
        number = step.after
        if number and step in self._reported:
            # A program of the vendor's may enable another number of them.
            number = self._count_vfs(gpu) or number
        is_set = len(gpu.vfs) == number
        if is_set:
            self._reported.discard(step)
        return is_set

    def _change_vfs(
        self, step: values.SetVFs, gpu: values.PhysicalGPU
    ) -> None:
        address, access = values.PciAddress.parse(step.gpu), self._access
        is_nvidia = gpu.ids is not None and gpu.ids.vendor == _NVIDIA
        tool = (access.run, access.sriov_manage) if is_nvidia else None
        arguments = tool, access.timeout, (self._lock,)
        if step.after:
            virtual_functions.set_vfs(
                access.tree, address, step.after, *arguments
            )
            return
        with self._exclude_claims():
            self._require_unused(self._read_gpu(step.gpu))
            virtual_functions.set_vfs(access.tree, address, 0, *arguments)

    def _require_unused(self, gpu: values.PhysicalGPU) -> None:
        """No vGPU or VF of it is in use, and no vGPU exists or is defined."""
        usage = self._read_usage()
        owners, vfs = usage.owners, gpu.functions - {gpu.name}
        vgpus = {vgpu.name for vgpu in gpu.all_vgpus}
        if not self.is_undoing:
            on_it = (m.uuid for m in usage.mdevs if m.parent in vfs)
            addresses = {str(vf.address) for vf in gpu.vfs}
            vgpus.update(on_it, addresses & usage.records.functions.keys())
        for name in sorted(vgpus | vfs):
            if name in owners:
                raise vgpu_executor.in_use(str(gpu), name, owners[name])
        if vgpus:
            raise exception.InUseError(
                values.Refusal(
                    str(gpu),
                    f'GPU {gpu}: its VFs are not disabled: it has vGPUs: '
                    f'{", ".join(sorted(map(steps.spell, vgpus)))}.',
                    f'Remove them with {_MANUALLY} first.',
                )
            )

    def _has_types(self, name: str) -> bool:
        """Whether the types are there, in sysfs and in libvirt."""
        from nova_vgpu.host import libvirt_nodes

        gpu = self._read_gpu(name)
        are_all_there = len(gpu.vfs) == self._count_vfs(gpu)
        if not are_all_there or not steps.shows_types(gpu):
            return False
        seen = libvirt_nodes.read_host(self._connection, self._access.tree)
        return any(
            steps.shows_types(same) and len(same.vfs) == len(gpu.vfs)
            for same in seen.gpus
            if same.name == gpu.name
        )

    def _count_vfs(self, gpu: values.PhysicalGPU) -> int:
        """How many VFs are enabled, also if they are not all there yet."""
        if gpu.sriov is None:
            return 0
        try:
            return sysfs.count_vfs(self._access.tree, (*files.PCI, str(gpu)))
        except files.Unreadable as error:
            raise exception.StepFailed(
                f'{error}.', 'See the kernel log.'
            ) from error

    def _set_heterogeneous(self, step: values.SetHeterogeneous) -> None:
        access, gpu = self._access, values.PciAddress.parse(step.gpu)
        if not step.after and self._is_in_mig_mode(step.gpu):
            return  # which has no such mode
        if step.after:
            # It is set while there is no vGPU, and libvirt may have started
            # some when the VFs appeared.
            self.vgpus.stop_started(self._read_gpu(step.gpu).functions)
        gpu_modes.set_heterogeneous(
            access.run, access.nvidia_smi, gpu, step.after, access.timeout
        )

    def _is_in_mig_mode(self, name: str) -> bool:
        gpu = self._read_gpu(name)
        mode = self._access.read_modes(values.Host((gpu,))).of(gpu.address).mig
        return mode is not None and mode.current

    def _set_profile(self, step: values.SetVFProfile) -> None:
        backend = xe.XeProfiles(self._access.tree)
        gpu = values.PciAddress.parse(step.gpu)
        for vf in range(1, step.vfs + 1):
            try:
                backend.set_profile(gpu, vf, step.setting, step.after)
            except KeyError as error:  # in a journal, by hand
                raise exception.StepFailed(
                    f'{step.setting} is not a setting of VFs.', 'Correct it.'
                ) from error
            except OSError as error:
                failure = virtual_functions.failed_write(error)
                if error.errno not in _REFUSALS:
                    raise failure from error
                raise exception.StepFailed(
                    f'{step.setting} of VF {vf} of {step.vfs}: '
                    f'{failure.message}',
                    'The GPU may not have enough for all of them: declare '
                    'smaller VFs, or fewer (max_instances).',
                ) from error

    # -- reading ------------------------------------------------------------

    def _read_gpu(self, name: str) -> values.PhysicalGPU:
        for gpu in self.vgpus.read_host().gpus:
            if str(gpu) == name:
                return gpu
        raise exception.StepFailed(
            f'GPU {name} is not there any more.', 'See the kernel log.'
        )

    def _set_type(self, function: str, type_id: str | None) -> None:
        backend = nvidia.NvidiaTypes(self._access.tree)
        try:
            timeout.set_type(backend, function, type_id, self._access.timeout)
        except OSError as error:
            raise virtual_functions.failed_write(error) from error
