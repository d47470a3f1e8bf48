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


"""From the plan to steps: what has to be done to each GPU, in which order.

::

    driver -> VFs -> types are there -> what is in the way goes
           -> sizes may mix -> vGPUs that somebody is to have again

That is the order in which hardware wants it: a GPU has no types without VFs,
and its mode cannot be changed while it has a vGPU. What a guest has is never
in the way; but an mdev that is of another type than it is to be is created
again while its guest does not run
(:mod:`nova_vgpu.reconcile.mdevs_to_recreate`). GPUs do not wait for each
other.
"""

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping

from nova_vgpu import values
from nova_vgpu.plan import available_types
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import mdev_records
from nova_vgpu.reconcile import mdevs_to_recreate
from nova_vgpu.reconcile import steps

_ABSENT = values.MdevState.ABSENT
_PERSISTENT = values.MdevState.PERSISTENT


def plan_steps(
    plan: values.Plan,
    host: values.Host,
    usage: values.Usage,
    creation: values.Creation,
    new_uuid: Callable[[], str],
) -> tuple[values.GPUSteps, ...]:
    """What brings every GPU of the plan to its declared state.

    :param new_uuid: names the mdevs that are made ahead of use.
    """
    ahead = creation is values.Creation.AHEAD
    names = type_matching.list_type_names(host)
    codes = {(problem.subject, problem.code) for problem in plan.problems}
    return tuple(
        _Planner(assigned, usage, names, ahead, new_uuid).plan()
        for assigned in plan.assignments
        if not _is_in_vain(assigned, codes) or _may_be_hidden(assigned, names)
    )


class _Planner:
    """The steps for one GPU."""

    def __init__(
        self,
        assigned: values.Assignment,
        usage: values.Usage,
        names: Mapping[str, str],
        ahead: bool,
        new_uuid: Callable[[], str],
    ) -> None:
        self._assigned = assigned
        self._gpu = assigned.gpu
        self._name = str(assigned.gpu)
        self._usage = usage
        self._owners = usage.owners
        self._names = names
        self._ahead = ahead
        self._new_uuid = new_uuid
        self._functions = _list_functions(assigned)

    def plan(self) -> values.GPUSteps:
        owner = self._owners.get(self._gpu.name)
        if owner is not None and self._gpu.address is not None:
            what = 'the GPU as a whole'
            refused = steps.refuse(self._name, what, owner)
            return values.GPUSteps(self._name, (), (refused,))
        mended = self._mend_mistakes()
        refusals = list(mended.refusals)
        removals = [
            *mended.removals,
            *self._remove_others(refusals, mended.decided),
        ]
        creations = [*mended.creations, *self._create_held()]
        creations += self._create_ahead(creations)
        in_order = (
            *self._make_ready(),
            *removals,
            *self._mix_sizes(creations, removals),
            *creations,
        )
        return values.GPUSteps(self._name, in_order, tuple(refusals))

    def _make_ready(self) -> Iterator[values.Step]:
        obstacle = readiness.find_obstacle(self._gpu)
        code = obstacle.code if obstacle else None
        if code in ('on-stub-driver', 'no-driver'):
            yield values.RepairDriver(self._name)
        elif code not in ('vfs-off', 'no-types-yet'):
            return
        if self._gpu.sriov is not None and not self._gpu.vfs:
            yield values.SetVFs(self._name, 0, self._gpu.sriov.total)
        yield values.AwaitTypes(self._name)

    def _mend_mistakes(self) -> mdevs_to_recreate.Mended:
        return mdevs_to_recreate.mend(
            mdevs_to_recreate.RecreateInput(
                self._gpu,
                self._functions,
                self._usage,
                self._names,
                self._is_declared,
            )
        )

    def _remove_others(
        self, refusals: list[values.Refusal], decided: Container[str]
    ) -> Iterator[values.SetType | values.SetMdev]:
        """vGPUs of another type than the GPU is to serve.

        :param decided: those of which it is known already what becomes.
        """
        assigned = self._assigned
        if assigned.type is None and not _may_be_hidden(assigned, self._names):
            return  # what it is to serve is not known
        for vgpu in self._gpu.all_vgpus:
            name = self._names.get(vgpu.type_id)
            vgpu_type = values.VGPUType(vgpu.type_id, name)
            if (
                # One that nothing names may well be the declared one.
                (name is None and self._assigned.type is None)
                or self._is_declared(vgpu_type)
                or vgpu.function not in self._functions
                or vgpu.name in decided
            ):
                continue
            called = steps.label(vgpu_type)
            owner = self._owners.get(vgpu.name)
            if owner is not None:
                refusals.append(
                    steps.refuse(
                        self._name,
                        f'vGPU {steps.spell(vgpu.name)} of {called}',
                        owner,
                        f', and the GPU is to serve {self._declared_name}',
                    )
                )
            elif vgpu.uuid is None:
                function = self._address(vgpu.function)
                yield values.SetType(self._name, function, called, '')
            else:
                yield values.SetMdev(
                    self._name,
                    vgpu.function,
                    vgpu.uuid,
                    called,
                    self._usage.state_of(vgpu.uuid),
                    _ABSENT,
                )
        for mdev in mdev_records.list_lost(
            self._gpu, self._functions, self._usage
        ):
            if mdev.uuid in self._owners or not mdev.state.is_defined:
                continue
            vgpu_type = mdev_records.type_of(mdev, self._usage, self._names)
            if not self._is_declared(vgpu_type):
                yield values.SetMdev(
                    self._name,
                    mdev.parent,
                    mdev.uuid,
                    steps.label(vgpu_type),
                    mdev.state,
                    _ABSENT,
                )

    def _create_held(self) -> Iterator[values.SetType | values.SetMdev]:
        """vGPUs that a guest has, or an operator enabled, and are not there.

        A reboot of the host takes them away.
        """
        for mdev in mdev_records.list_lost(
            self._gpu, self._functions, self._usage
        ):
            vgpu_type = mdev_records.type_of(mdev, self._usage, self._names)
            if mdev.uuid in self._owners or (
                self._is_declared(vgpu_type) and self._has_place(mdev)
            ):
                yield values.SetMdev(
                    self._name,
                    mdev.parent,
                    mdev.uuid,
                    steps.label(vgpu_type),
                    mdev.state,
                    _PERSISTENT,
                )
        there = {vf.name: vf for vf in self._gpu.vfs}
        for function, wanted in self._list_wanted_functions():
            vf = there.get(function)
            if vf is None and self._gpu.vfs:
                continue  # a function that the GPU does not have
            if vf is None or (vf.vendor_vfio and not vf.vgpus):
                yield values.SetType(
                    self._name, self._address(function), '', wanted
                )

    def _has_place(self, mdev: values.Mdev) -> bool:
        """Whether no other took the place of an mdev that nobody has."""
        if mdev.state.is_defined:
            return True
        if mdev.parent != self._gpu.name:
            vgpus = self._gpu.all_vgpus
            return all(vgpu.function != mdev.parent for vgpu in vgpus)
        counted = self._assigned.capacity
        is_full = counted and 0 < counted.existing >= counted.total
        return not is_full

    def _list_wanted_functions(self) -> Iterator[tuple[str, str]]:
        """Functions that are to be vGPUs, and of which type.

        One that a guest has without a note that it is a vGPU is one where all
        of them are made ahead, for Nova's PCI passthrough, or where an
        operator enabled it.
        """
        found = set()
        for guest in self._usage.guests:
            noted = {vgpu.name: vgpu.type_name for vgpu in guest.vgpus}
            for address in sorted(guest.functions):
                function = address.node_device_name
                if function not in self._functions.keys() - {self._gpu.name}:
                    continue
                if function in noted or self._ahead:
                    found.add(function)
                    yield function, noted.get(function) or self._declared_name
        for text, wanted in self._usage.records.functions.items():
            function = values.PciAddress.parse(text).node_device_name
            if function not in self._functions or function in found:
                continue
            vgpu_type = values.VGPUType(wanted, wanted)
            if function in self._owners or self._is_declared(vgpu_type):
                yield function, wanted

    def _create_ahead(
        self, planned: list[values.SetType | values.SetMdev]
    ) -> list[values.SetType | values.SetMdev]:
        """As many as the GPU serves, if it is declared so."""
        vgpu_type, counted = self._assigned.type, self._assigned.capacity
        if not self._ahead or vgpu_type is None or counted is None:
            return []
        declared = [
            step
            for step in planned
            if type_matching.find_matches(_type_in(step), [vgpu_type])
        ]
        missing = counted.total - counted.existing - len(declared)
        reserved = {_function_in(step, self._functions) for step in planned}
        called = steps.label(vgpu_type)
        made: list[values.SetType | values.SetMdev] = []
        for function in self._list_free(missing, reserved):
            if self._gpu.framework is values.Framework.VENDOR_VFIO:
                address = self._address(function)
                made.append(values.SetType(self._name, address, '', called))
            else:
                states = _ABSENT, _PERSISTENT
                mdev = function, self._new_uuid(), called, *states
                made.append(values.SetMdev(self._name, *mdev))
        return made[: max(missing, 0)]

    def _list_free(self, missing: int, reserved: set[str]) -> list[str]:
        """Functions that would take a vGPU each; a GPU itself takes many."""
        if self._gpu.framework is values.Framework.MDEV:
            return [self._gpu.name] * missing
        return [
            vf.name
            for vf in self._gpu.vfs
            if vf.name in self._functions
            and not vf.vgpus
            and vf.name not in reserved
            and vf.name not in self._owners
        ]

    def _mix_sizes(
        self,
        creations: list[values.SetType | values.SetMdev],
        removals: list[values.SetType | values.SetMdev],
    ) -> Iterator[values.Step]:
        """Whether what is to be there, and what is served, differ in size."""
        if self._gpu.address is None or not creations:
            return
        removed = {_vgpu_in(step) for step in removals}
        if any(vgpu.name not in removed for vgpu in self._gpu.all_vgpus):
            return  # what stays leaves no choice
        wanted = {_type_in(step) for step in creations}
        wanted.add(self._declared_name)
        sizes = {mdevs_to_recreate.size_of(self._gpu, name) for name in wanted}
        # A GPU that holds vGPUs of different sizes already stays so.
        is_mixed = self._assigned.modes.heterogeneous
        if len(sizes) > 1 and None not in sizes and not is_mixed:
            yield values.SetHeterogeneous(self._name, False, True)

    @property
    def _declared_name(self) -> str:
        """What the GPU is to serve, as well as it is known."""
        if self._assigned.type is not None:
            return steps.label(self._assigned.type)
        return self._assigned.declared.name

    def _is_declared(self, vgpu_type: values.VGPUType) -> bool:
        """Whether a type is the one that the GPU is to serve."""
        if self._assigned.type is not None:
            same = type_matching.find_matches(
                steps.label(vgpu_type), [self._assigned.type]
            )
            return bool(same)
        wanted = self._assigned.declared.name
        return bool(type_matching.find_matches(wanted, [vgpu_type]))

    def _address(self, function: str) -> str:
        return self._functions[function]


def _is_in_vain(
    assigned: values.Assignment, codes: Container[tuple[str, str]]
) -> bool:
    """Whether no vGPU of its type can be created on the GPU.

    While the type is not known, what the GPU lost can be created again.
    """
    gpu = str(assigned.gpu)
    is_mig_off = assigned.type is not None and (gpu, 'mig-off') in codes
    return is_mig_off or (gpu, 'type-not-offered') in codes


def _may_be_hidden(
    assigned: values.Assignment, names: Mapping[str, str]
) -> bool:
    """Whether what the GPU has may be why it does not offer its type."""
    declared = assigned.declared.name
    return available_types.may_be_hidden(
        assigned.gpu, names.get(declared, declared)
    )


def _list_functions(assigned: values.Assignment) -> dict[str, str]:
    """Names and addresses of the functions that vGPUs may be on.

    Those that will be there once the VFs are enabled as well.
    """
    gpu = assigned.gpu
    if gpu.address is None:
        return {gpu.name: gpu.name}
    every = {gpu.address, *(vf.address for vf in gpu.vfs)}
    if gpu.sriov is not None:
        every.update(gpu.sriov.addresses(gpu.address))
    found = {
        address.node_device_name: str(address)
        for address in every
        if address.node_device_name not in assigned.pci_devices
    }
    if gpu.name in assigned.functions:
        return found
    return {n: a for n, a in found.items() if n in assigned.functions}


def _function_in(
    step: values.SetType | values.SetMdev, functions: Mapping[str, str]
) -> str:
    """The name of the function that a step puts a vGPU on."""
    if isinstance(step, values.SetMdev):
        return step.parent
    return next(n for n, a in functions.items() if a == step.function)


def _vgpu_in(step: values.SetType | values.SetMdev) -> str:
    """The name of the vGPU that a step is about."""
    if isinstance(step, values.SetMdev):
        return step.uuid
    return values.PciAddress.parse(step.function).node_device_name


def _type_in(step: values.SetType | values.SetMdev) -> str:
    return step.after if isinstance(step, values.SetType) else step.type
