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


"""One step, done.

Everything is looked at again before it is touched, under the locks that keep
others from it: what was planned a second ago may not hold any more. A step
that is done already is done.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import heterogeneous
from nova_vgpu.host import locks
from nova_vgpu.host import pci_functions
from nova_vgpu.host import sriov
from nova_vgpu.host import sysfs
from nova_vgpu.host import vendor_vfio
from nova_vgpu.lifecycle import host_access
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import mdev_records
from nova_vgpu.reconcile import preconditions
from nova_vgpu.reconcile import steps

_NVIDIA = 0x10DE
_BY_HAND = '"nova-vgpu device disable"'
_LOOK_AGAIN = 'Let libvirt look again: restart libvirtd, or virtnodedevd.'
_PAUSE = 0.1


class Executor:
    """Does steps, one after the other, on one host."""

    def __init__(
        self,
        access: host_access.HostAccess,
        connection: typing.Any,
        lock: int,
        warn: host_access.Warn,
    ) -> None:
        #: Whether steps are taken back: what was only to be there, then as
        #: now, is in nobody's way.
        self.is_undoing = False
        #: mdevs that are started by a later step: a guest that does not run
        #: has no vGPU less after that.
        self.recreated: frozenset[str] = frozenset()
        self._access = access
        self._connection = connection
        self._lock = lock
        self._warn = warn
        self._host = values.Host()
        # What was reported as done, and is perhaps not there yet.
        self._reported: set[values.SetVFs] = set()

    def attempt(self, step: values.Step) -> bool:
        """Do a step; False if it has to be tried again later.

        :raises StepFailed: if it cannot be done.
        :raises InUseError: if somebody has what it is about.
        """
        try:
            return self._attempt(step)
        except values.MalformedAddress as error:  # in a journal, by hand
            raise exception.StepFailed(f'{error}.', 'Correct it.') from error
        except exception.StepFailed as error:
            is_outdated = isinstance(error, exception.PlanOutdated)
            if is_outdated or not preconditions.is_backed_by_mig(step):
                raise
            raise exception.StepFailed(
                error.message,
                'A type that is backed by MIG needs a GPU instance of its '
                'size that no other vGPU has (nvidia-smi mig -lgi).',
            ) from error

    def _attempt(self, step: values.Step) -> bool:
        match step:
            case values.RepairDriver():
                self._repair_driver(step)
            case values.SetVFs():
                return self._set_vfs(step)
            case values.AwaitTypes():
                return self._has_types(step.gpu)
            case values.SetHeterogeneous():
                self._set_mixing(step)
            case values.SetType():
                self._set_type(step)
            case values.SetMdev():
                self._set_mdev(step)
        return True

    def read_host(self) -> values.Host:
        """The host as it is now."""
        self._host = self._access.complete(sysfs.read_host(self._access.tree))
        return self._host

    # -- virtual functions --------------------------------------------------

    def _repair_driver(self, step: values.RepairDriver) -> None:
        with self._exclusive():
            owners = self._read_usage().owners
            for name in sorted(self._read_gpu(step.gpu).functions):
                if name in owners and owners[name].running:
                    raise _in_use(step.gpu, name, owners[name])
            sriov.repair_driver(self._access.tree, _address(step.gpu))

    def _set_vfs(self, step: values.SetVFs) -> bool:
        if self._are_vfs_set(step):
            self._reported.discard(step)
            return True
        if step not in self._reported:
            try:
                self._change_vfs(step)
            except sriov.NotYet:
                return False
            self._reported.add(step)
        return self._are_vfs_set(step)

    def _are_vfs_set(self, step: values.SetVFs) -> bool:
        """Whether the functions are there, and not only reported.

        A program of the vendor's may enable another number of them.
        """
        gpu = self._read_gpu(step.gpu)
        number = step.after
        if number and step in self._reported:
            number = self._count_vfs(gpu) or number
        return len(gpu.vfs) == number

    def _change_vfs(self, step: values.SetVFs) -> None:
        address, access = _address(step.gpu), self._access
        gpu = self._read_gpu(step.gpu)
        is_nvidia = gpu.ids is not None and gpu.ids.vendor == _NVIDIA
        tool = (access.run, access.sriov_manage) if is_nvidia else None
        arguments = tool, access.timeout, (self._lock,)
        if step.after:
            sriov.set_vfs(access.tree, address, step.after, *arguments)
            return
        with self._exclusive():
            self._require_unused(self._read_gpu(step.gpu))
            sriov.set_vfs(access.tree, address, 0, *arguments)

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
                raise _in_use(str(gpu), name, owners[name])
        if vgpus:
            raise exception.InUseError(
                values.Refusal(
                    str(gpu),
                    f'GPU {gpu}: its VFs are not disabled: it has vGPUs: '
                    f'{", ".join(sorted(map(steps.spell, vgpus)))}.',
                    f'Remove them with {_BY_HAND} first.',
                )
            )

    def _has_types(self, name: str) -> bool:
        """Whether the types are there, in sysfs and in libvirt."""
        from nova_vgpu.host import libvirt_nodes

        gpu = self._read_gpu(name)
        are_all_there = len(gpu.vfs) == self._count_vfs(gpu)
        if not are_all_there or not preconditions.shows_types(gpu):
            return False
        seen = libvirt_nodes.read_host(self._connection, self._access.tree)
        return any(
            preconditions.shows_types(same) and len(same.vfs) == len(gpu.vfs)
            for same in seen.gpus
            if same.name == gpu.name
        )

    def _count_vfs(self, gpu: values.PhysicalGPU) -> int:
        """How many VFs are enabled, also if they are not all there yet."""
        if gpu.sriov is None:
            return 0
        reader = pci_functions.FunctionReader(self._access.tree, [])
        try:
            return reader.count_vfs((*pci_functions.PCI, str(gpu)))
        except files.Unreadable as error:
            raise exception.StepFailed(
                f'{error}.', 'See the kernel log.'
            ) from error

    def _set_mixing(self, step: values.SetHeterogeneous) -> None:
        access, gpu = self._access, _address(step.gpu)
        heterogeneous.set_mixing(
            access.run, access.nvidia_smi, gpu, step.after, access.timeout
        )

    # -- vGPUs --------------------------------------------------------------

    def _set_type(self, step: values.SetType) -> None:
        address = values.PciAddress.parse(step.function)
        if step.after:
            with self._creating():
                self._make_vgpu(step, address)
            return
        with self._exclusive(), self._creating():
            owner = self._read_usage().owners.get(address.node_device_name)
            current = self._read_current(address)
            if current is None:
                return
            if owner is not None:
                raise _in_use(step.gpu, step.function, owner)
            if not preconditions.may_be(current, step.before):
                raise exception.InUseError(
                    values.Refusal(
                        step.gpu,
                        f'GPU {step.gpu}: VF {address} is left alone: it is '
                        f'{steps.label(current)} by now, and not '
                        f'{step.before}.',
                        f'Clear it with {_BY_HAND} if nobody needs it.',
                    )
                )
            self._write_number(address, 0)

    def _read_current(
        self, address: values.PciAddress
    ) -> values.VGPUType | None:
        """The type of a VF; one that is not there has none."""
        try:
            self._access.tree.list(*pci_functions.PCI, str(address))
        except files.Unreadable as error:
            if error.gone:
                return None
            raise exception.StepFailed(
                f'{error}.', 'See the kernel log.'
            ) from error
        return self._read_function(address)[0]

    def _make_vgpu(
        self, step: values.SetType, address: values.PciAddress
    ) -> None:
        current, offered = self._read_function(address)
        if current is not None:
            if preconditions.may_be(current, step.after):
                return
            raise exception.StepFailed(
                f'VF {address} is {steps.label(current)} already.',
                f'Clear it with {_BY_HAND} if nobody needs it.',
            )
        vgpu_type = preconditions.choose(step.after, str(address), offered)
        self._write_number(address, vendor_vfio.number_of(vgpu_type))
        if self._read_function(address)[0] is None:
            raise exception.StepFailed(
                f'VF {address} took the type, but does not show it.',
                'The kernel log may say more (journalctl -k).',
            )

    def _write_number(self, address: values.PciAddress, number: int) -> None:
        access = self._access
        try:
            vendor_vfio.write_type_in_time(
                access.tree, str(address), number, access.timeout
            )
        except OSError as error:
            raise sriov.failed_write(error) from error

    def _set_mdev(self, step: values.SetMdev) -> None:
        from nova_vgpu.host import mdevs

        is_made = step.after.is_defined and not step.before.is_started
        if is_made or step.after.is_started:
            with self._creating():
                type_id = self._resolve(step).id
                mdevs.set_state(
                    self._connection,
                    values.Mdev(step.uuid, step.parent, type_id, step.after),
                )
            return
        with self._exclusive(), self._creating():
            usage = self._read_usage()
            owner = usage.owners.get(step.uuid)
            if owner is not None and not self._may_replace(step, owner, usage):
                raise _in_use(step.gpu, step.uuid, owner)
            known = {mdev.uuid: mdev for mdev in usage.mdevs}
            if step.uuid in known:
                mdev = dataclasses.replace(known[step.uuid], state=step.after)
                mdevs.set_state(self._connection, mdev)
            elif any(
                vgpu.uuid == step.uuid
                for gpu in self.read_host().gpus
                for vgpu in gpu.all_vgpus
            ):
                raise exception.StepFailed(
                    'libvirt does not show it.',
                    _LOOK_AGAIN,
                )
        if step.uuid in self.recreated:
            self._await_gone(step.uuid)

    def _await_gone(self, uuid: str) -> None:
        """Until libvirt has noticed it, it would not define one anew."""
        from nova_vgpu.host import mdevs

        access = self._access
        end = access.now() + access.timeout
        while any(m.uuid == uuid for m in mdevs.list_mdevs(self._connection)):
            if access.now() >= end:
                raise exception.StepFailed(
                    'libvirt still shows it.', _LOOK_AGAIN
                )
            access.sleep(_PAUSE)

    def _may_replace(
        self,
        step: values.SetMdev,
        owner: values.Guest,
        usage: values.Usage,
    ) -> bool:
        """Whether what a guest has is to go, because it is of a wrong type.

        It comes back with the right one.
        """
        if owner.running or step.uuid not in self.recreated:
            return False
        host = self.read_host()
        names = type_matching.list_type_names(host)
        return any(
            vgpu.uuid == step.uuid
            and mdev_records.find_wanted_type(vgpu, usage, names)
            for gpu in host.gpus
            for vgpu in gpu.all_vgpus
        )

    def _resolve(self, step: values.SetMdev) -> values.VGPUType:
        """The type of an mdev, as its parent calls it now."""
        for gpu in self._host.gpus or self.read_host().gpus:
            if step.parent in gpu.functions:
                return preconditions.choose(step.type, step.parent, gpu.types)
        raise exception.StepFailed(
            f'{step.parent} is not there.', 'Are the VFs of its GPU enabled?'
        )

    # -- looking ------------------------------------------------------------

    def _read_gpu(self, name: str) -> values.PhysicalGPU:
        for gpu in self.read_host().gpus:
            if str(gpu) == name:
                return gpu
        raise exception.StepFailed(
            f'GPU {name} is not there any more.', 'See the kernel log.'
        )

    def _read_function(
        self, address: values.PciAddress
    ) -> tuple[values.VGPUType | None, list[values.VGPUType]]:
        """The type of a VF, if it has one, and those that it would take."""
        faults: list[values.ReadFault] = []
        reader = pci_functions.FunctionReader(self._access.tree, faults)
        where = (*pci_functions.PCI, str(address))
        offers, vgpus = reader.read_vendor_vfio(
            address.node_device_name, where
        )
        if faults:
            raise exception.StepFailed(
                f'{faults[0]}.', 'Are the VFs of its GPU enabled?'
            )
        names = type_matching.list_type_names(self._host)
        current = [
            values.VGPUType(vgpu.type_id, names.get(vgpu.type_id))
            for vgpu in vgpus
        ]
        return next(iter(current), None), [offer.type for offer in offers]

    def _read_usage(self) -> values.Usage:
        return host_access.read_usage(
            self._access, self._connection, self._warn
        )

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """While no server has chosen a vGPU that its guest does not show."""
        access = self._access
        with locks.hold_claims(access.locks, access.timeout, exclusive=True):
            yield

    @contextlib.contextmanager
    def _creating(self) -> Iterator[None]:
        with locks.hold_creation(self._access.locks, self._access.timeout):
            yield


def _in_use(gpu: str, what: str, owner: values.Guest) -> exception.InUseError:
    return exception.InUseError(
        steps.refuse(gpu, f'vGPU {steps.spell(what)}', owner)
    )


def _address(gpu: str) -> values.PciAddress:
    return values.PciAddress.parse(gpu)
