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

"""The steps that create and remove vGPUs, executed.

Commands and nova-compute execute them alike. Everything is read again before
it is touched, under the locks that keep others from it: what was planned a
second ago may not hold any more. A step that is done already is done.
"""

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import typing

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import type_backends
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vgpu_facts

_MANUALLY = '"nova-vgpu device disable"'
_RESTART = 'Let libvirt look again: restart libvirtd, or virtnodedevd.'
_PAUSE = 0.1

Lock = Callable[[], contextlib.AbstractContextManager[None]]


@dataclasses.dataclass(frozen=True, slots=True)
class VGPUAccess:
    """What differs between a command and nova-compute.

    ``connection`` is libvirt's. ``set_type`` sets the type of a function,
    given by its address, to the one with an id, or clears it with None, and
    raises ``StepFailed``. Under the lock ``exclude_claims`` no server has a
    vGPU that its guest does not show yet; under ``create`` no other process
    creates or removes one. ``names`` are those of types by their ids, on a
    host.
    """

    tree: files.Files
    connection: typing.Any
    set_type: Callable[[str, str | None], None]
    exclude_claims: Lock
    create: Lock
    read_host: Callable[[], values.Host]
    read_usage: Callable[[], values.Usage]
    timeout: float
    sleep: Callable[[float], None]
    now: Callable[[], float]
    names: Callable[[values.Host], Mapping[str, str]] = (
        type_matching.list_type_names
    )


class VGPUExecutor:
    """Creates and removes vGPUs, one after the other, on one host."""

    def __init__(self, access: VGPUAccess) -> None:
        #: vGPUs that come back after they are removed, by a later step or
        #: when their server starts: a guest that does not run has no vGPU
        #: less after that.
        self.recreated: frozenset[str] = frozenset()
        #: The host when it was last read: what ids of types mean.
        self.host = values.Host()
        self._access = access

    def read_host(self) -> values.Host:
        """The host as it is now."""
        self.host = self._access.read_host()
        return self.host

    def execute(self, step: steps.VGPUStep) -> None:
        """Execute a step.

        :raises StepFailed: if it does not work.
        :raises InUseError: if what it would remove is in use.
        :raises HostUnreadable: if libvirt does not answer.
        """
        if isinstance(step, values.SetMdev):
            self._set_mdev(step)
            return
        address = values.PciAddress.parse(step.function)
        if step.after:
            with self._access.create():
                self._set_type(step, address)
        else:
            with self._access.exclude_claims(), self._access.create():
                self._clear_type(step, address)

    # -- functions ----------------------------------------------------------

    def _set_type(
        self, step: values.SetType, address: values.PciAddress
    ) -> None:
        current, offered = self._read_function(address)
        if current is not None:
            if steps.may_be(current, step.after):
                return
            raise exception.StepFailed(
                f'VF {address} is {steps.label(current)} already.',
                f'Clear it with {_MANUALLY} if it is not needed.',
            )
        vgpu_type = steps.choose(step.after, str(address), offered)
        self._access.set_type(str(address), vgpu_type.id)
        if self._read_function(address)[0] is None:
            raise exception.StepFailed(
                f'VF {address} took the type, but does not show it.',
                'The kernel log may say more (journalctl -k).',
            )

    def _clear_type(
        self, step: values.SetType, address: values.PciAddress
    ) -> None:
        current = self._read_current(address)
        if current is None:
            return
        usage = self._access.read_usage()
        self._require_unused(step, usage)
        if not steps.may_be(current, step.before):
            raise exception.InUseError(
                values.Refusal(
                    step.gpu,
                    f'GPU {step.gpu}: VF {address} is left alone: it is '
                    f'{steps.label(current)} by now, and not {step.before}.',
                    f'Clear it with {_MANUALLY} if it is not needed.',
                )
            )
        self._access.set_type(str(address), None)

    def _read_current(
        self, address: values.PciAddress
    ) -> values.VGPUType | None:
        """The type of a VF; one that is not there has none."""
        try:
            self._access.tree.list(*files.PCI, str(address))
        except files.Unreadable as error:
            if error.gone:
                return None
            raise exception.StepFailed(
                f'{error}.', 'See the kernel log.'
            ) from error
        return self._read_function(address)[0]

    def _read_function(
        self, address: values.PciAddress
    ) -> tuple[values.VGPUType | None, list[values.VGPUType]]:
        """The type of a VF, if it has one, and those that it would take."""
        faults: list[values.ReadFault] = []
        backend = nvidia.NvidiaTypes(self._access.tree, faults)
        offers, vgpus = backend.read(
            type_backends.Function(
                address.node_device_name, (*files.PCI, str(address))
            )
        )
        if faults:
            raise exception.StepFailed(
                f'{faults[0]}.', 'Are the VFs of its GPU enabled?'
            )
        names = self._access.names(self.host)
        current = [
            values.VGPUType(vgpu.type_id, names.get(vgpu.type_id))
            for vgpu in vgpus
        ]
        return next(iter(current), None), [offer.type for offer in offers]

    # -- mdevs --------------------------------------------------------------

    def _set_mdev(self, step: values.SetMdev) -> None:
        # Not at the top: not every installation has libvirt.
        from nova_vgpu.host import mdevs

        is_made = step.after.is_defined and not step.before.is_started
        if is_made or step.after.is_started:
            with self._access.create():
                type_id = self._resolve(step).id
                wanted = values.Mdev(
                    step.uuid, step.parent, type_id, step.after
                )
                connection = self._access.connection
                if mdevs.undefine_outdated(connection, wanted):
                    self._await_gone(
                        lambda mdev: mdevs.is_outdated(mdev, wanted)
                    )
                mdevs.set_state(connection, wanted)
            return
        with self._access.exclude_claims(), self._access.create():
            self._stop_mdev(step)
        # libvirt goes on to show one that stays defined.
        if not step.after.is_defined and step.uuid in self.recreated:
            self._await_gone(lambda mdev: mdev.uuid == step.uuid)

    def _stop_mdev(self, step: values.SetMdev) -> None:
        from nova_vgpu.host import mdevs

        self._require_unused(step, self._access.read_usage())
        connection = self._access.connection
        known = {mdev.uuid: mdev for mdev in mdevs.list_mdevs(connection)}
        if step.uuid in known:
            mdev = dataclasses.replace(known[step.uuid], state=step.after)
            mdevs.set_state(connection, mdev)
        elif self._find_vgpu(step.uuid) is not None:
            raise exception.StepFailed('libvirt does not show it.', _RESTART)

    def stop_started(self, functions: Container[str]) -> None:
        """Stop mdevs that came with the VFs of a GPU, unless a guest runs.

        They stay defined, and steps that follow start them again.

        :param functions: those of the GPU.
        """
        from nova_vgpu.host import mdevs

        connection = self._access.connection
        if not list(_list_persistent(connection, functions)):
            return
        with self._access.exclude_claims(), self._access.create():
            usage = self._access.read_usage()
            found = list(_list_persistent(connection, functions))
            owners = [usage.owners.get(mdev.uuid) for mdev in found]
            if any(owner and owner.running for owner in owners) or any(
                mdev.uuid in usage.claimed for mdev in found
            ):
                return
            for mdev in found:
                mdevs.set_state(
                    connection,
                    dataclasses.replace(mdev, state=values.MdevState.DEFINED),
                )

    def _await_gone(self, is_meant: Callable[[values.Mdev], bool]) -> None:
        """Until libvirt has noticed it, it would not define it again."""
        from nova_vgpu.host import mdevs

        access = self._access
        end = access.now() + access.timeout
        while any(map(is_meant, mdevs.list_mdevs(access.connection))):
            if access.now() >= end:
                raise exception.StepFailed('libvirt still shows it.', _RESTART)
            access.sleep(_PAUSE)

    def _resolve(self, step: values.SetMdev) -> values.VGPUType:
        """The type of an mdev, as its parent calls it now."""
        for gpu in self.host.gpus or self.read_host().gpus:
            if step.parent in gpu.functions:
                return steps.choose(step.type, step.parent, gpu.types)
        raise exception.StepFailed(
            f'{step.parent} is not there.', 'Are the VFs of its GPU enabled?'
        )

    # -- what is in use -----------------------------------------------------

    def _require_unused(
        self, step: steps.VGPUStep, usage: values.Usage
    ) -> None:
        """Refuse to remove what a server has, unless it comes back.

        That is so for one of a wrong type, while its guest does not run.

        :raises InUseError: if it is in use.
        """
        name = steps.vgpu_in(step)
        owner = usage.owners.get(name)
        if owner is None:
            if name not in usage.claimed:
                return
            raise exception.InUseError(
                values.Refusal(
                    step.gpu,
                    f'GPU {step.gpu}: vGPU {steps.spell(name)} is not '
                    'touched: it was just chosen for a server.',
                    'Run it again.',
                )
            )
        if owner.running or name not in self.recreated:
            raise in_use(step.gpu, name, owner)
        vgpu = self._find_vgpu(name)
        names = self._access.names(self.host)
        if vgpu is None or not vgpu_facts.find_wanted_type(vgpu, usage, names):
            raise in_use(step.gpu, name, owner)

    def _find_vgpu(self, name: str) -> values.VGPU | None:
        for gpu in self.read_host().gpus:
            for vgpu in gpu.all_vgpus:
                if vgpu.name == name:
                    return vgpu
        return None


def _list_persistent(
    connection: typing.Any, functions: Container[str]
) -> Iterator[values.Mdev]:
    from nova_vgpu.host import mdevs

    for mdev in mdevs.list_mdevs(connection):
        is_persistent = mdev.state is values.MdevState.PERSISTENT
        if is_persistent and mdev.parent in functions:
            yield mdev


def in_use(gpu: str, name: str, owner: values.Guest) -> exception.InUseError:
    """That something is not touched, because a guest has it."""
    return exception.InUseError(
        steps.refuse(gpu, f'vGPU {steps.spell(name)}', owner)
    )
