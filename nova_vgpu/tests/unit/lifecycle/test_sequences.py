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


"""Whatever happens to a host, in whatever order: what is promised holds.

How many sequences are tried is said by ``HYPOTHESIS_SEQUENCES``; few by
default, so that it is quick.
"""

import dataclasses
import errno
import os
import typing

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import host_access
from nova_vgpu.lifecycle import step_runner
from nova_vgpu.reconcile import manual_steps
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import live
from nova_vgpu.tests import plans

_SEQUENCES = int(os.environ.get('HYPOTHESIS_SEQUENCES', '40'))

_TYPES = {
    live.T4: ('T4-4Q', 'T4-8Q', 'T4-16Q'),
    live.A10: ('A10-8Q', 'A10-12Q', 'A10-24Q'),
    live.L40S: ('L40S-12Q', 'L40S-24Q', 'L40S-48Q'),
}
#: What fits beside each other on each GPU, as it is declared.
_SHARES = {
    live.T4: ({'T4-4Q': '=2', 'T4-8Q': '=1'},),
    live.A10: (
        {'A10-8Q': '=1', 'A10-12Q': '=1'},
        {'A10-12Q': '41:00.4', 'A10-8Q': '41:00.6'},
    ),
    live.L40S: (
        {'L40S-12Q': '=2', 'L40S-24Q': '=1'},
        {'L40S-24Q': 'c1:00.5', 'L40S-12Q': '=2'},
    ),
}
_GPUS = st.sampled_from(sorted(_TYPES))
_FAULTS = st.sampled_from([errno.EIO, errno.EBUSY, errno.ENOSPC, errno.EINVAL])


@st.composite
def _declarations(draw: st.DrawFn) -> str:
    gpus = draw(st.sets(_GPUS, min_size=1))
    chosen: dict[str, str] = {}
    for gpu in sorted(gpus):
        one = draw(st.sampled_from(_TYPES[gpu]))
        shares = draw(st.sampled_from(({one: ''}, *_SHARES[gpu])))
        for name, entry in shares.items():
            chosen[name] = entry if ':' in entry else gpu + entry
    creation = draw(st.sampled_from(['on-demand', 'ahead']))
    lines = [
        '[devices]',
        f'enabled_vgpu_types = {", ".join(chosen)}',
        'unlisted_gpus = ignore',
        f'vgpu_creation = {creation}',
    ]
    for name, entry in chosen.items():
        lines += [f'[vgpu_{name}]', f'device_addresses = {entry}']
    return '\n'.join(lines)


class Life(stateful.RuleBasedStateMachine):
    """A host, its operator, its servers, and misfortune."""

    def __init__(self) -> None:
        super().__init__()
        self.host = live.LiveHost(*live.bare_gpus())
        self.host.setUp()
        self.host.number_uuids()
        self.host.access = dataclasses.replace(
            self.host.access, read_modes=self._read_modes
        )
        self.libvirt = self.host.machine.libvirt
        self.kernel = self.host.machine.kernel
        self.tools = self.host.machine.tools
        self.declared = live.ALL_THREE
        #: The types of the vGPUs of each guest that is there.
        self.servers: dict[str, dict[str, str]] = {}
        self.unplugged: dict[str, simulation.GPU] = {}
        self.booted = 0

    def teardown(self) -> None:
        self.host.cleanUp()

    # -- what the operator does ---------------------------------------------

    @stateful.rule(text=_declarations())
    def edit_nova_conf(self, text: str) -> None:
        self.declared = text

    @stateful.rule()
    def apply(self) -> None:
        outcome = self._apply()
        if outcome is None or outcome.failures:
            return
        again = self._apply()
        assert again is not None
        assert not again.done, again.done
        self._check_mistakes(again)
        if not outcome.refusals and not outcome.problems:
            self._check_declared()

    @stateful.rule()
    def restore(self) -> None:
        apply.restore(self.host.access, live.Recorder())

    @stateful.rule(gpu=_GPUS)
    def enable_vfs(self, gpu: str) -> None:
        self._by_hand(gpu, manual_steps.enable_vfs)

    @stateful.rule(gpu=_GPUS)
    def disable_vfs(self, gpu: str) -> None:
        self._by_hand(gpu, manual_steps.disable_vfs)

    def _by_hand(self, gpu: str, decide: typing.Any) -> None:
        def plan(state: host_access.HostState) -> apply.ManualSteps:
            found = [g for g in state.host.gpus if str(g) == gpu]
            return apply.ManualSteps(tuple(decide(g) for g in found))

        try:
            apply.execute(self.host.access, plan, live.Recorder())
        except exception.UsageError:
            assert gpu == live.T4  # it has no VFs

    @stateful.rule(data=st.data())
    def enable_device(self, data: st.DataObject) -> None:
        gpu = data.draw(_GPUS)
        wanted = data.draw(st.sampled_from(_TYPES[gpu]))
        declaration = live.declare(self.declared)

        def plan(state: host_access.HostState) -> apply.ManualSteps:
            made = plans.make_plan(declaration, state.host)
            step = manual_steps.enable_device(
                state.host,
                state.usage,
                made,
                gpu,
                wanted,
                self.host.access.new_uuid,
            )
            keep = {}
            if isinstance(step, values.SetType):
                keep[step.function] = step.after
            return apply.ManualSteps((values.GPUSteps(gpu, (step,)),), keep)

        try:
            apply.execute(self.host.access, plan, live.Recorder())
        except (exception.NotAvailable, exception.NoSuchDevice):
            hypothesis.event('not enabled')

    @stateful.rule(data=st.data())
    def disable_device(self, data: st.DataObject) -> None:
        there = sorted(
            vgpu.uuid or _address(vgpu.function)
            for gpu in self.host.read().gpus
            for vgpu in gpu.all_vgpus
        )
        if not there:
            return
        device = data.draw(st.sampled_from(there))

        def plan(state: host_access.HostState) -> apply.ManualSteps:
            step = manual_steps.disable_device(state.host, state.usage, device)
            assert step is not None
            keep: dict[str, str | None] = {}
            if isinstance(step, values.SetType):
                keep[step.function] = None
            return apply.ManualSteps(
                (values.GPUSteps(step.gpu, (step,)),), keep
            )

        apply.execute(self.host.access, plan, live.Recorder())

    # -- what servers do ----------------------------------------------------

    @stateful.rule(gpu=_GPUS, share=st.integers(0, 1))
    def boot_server(self, gpu: str, share: int) -> None:
        """As nova-compute does it: an idle vGPU of the type, or a new one."""
        state = self._read()
        made = plans.make_plan(live.declare(self.declared), state.host)
        of_gpu = [a for a in made.assignments if str(a.gpu) == gpu]
        for assigned in of_gpu[share % len(of_gpu) :][:1] if of_gpu else ():
            if assigned.type is not None:
                try:
                    self._boot(assigned, state)
                except (OSError, exception.StepFailed):
                    assert self.kernel.faults  # it was told to fail

    def _boot(
        self, assigned: values.Assignment, state: host_access.HostState
    ) -> None:
        from nova_vgpu.reconcile import vgpu_facts

        taken = set(state.usage.owners)
        idle = vgpu_facts.list_idle(assigned, taken)
        function = next(vgpu_facts.list_rooms(assigned, taken), None)
        wanted = assigned.type
        assert wanted is not None and wanted.name is not None
        if idle:
            name = idle[0]
        elif function is None:
            return
        elif assigned.gpu.framework is values.Framework.VENDOR_VFIO:
            name = function
            self.host.set_type(_address(function), wanted.name)
        else:
            name = self.host.create_mdev(_address(function), wanted.name)
        self.booted += 1
        server = f'server-{self.booted:03}'
        if name.startswith('pci_'):
            self.libvirt.define_guest(
                server, functions={_address(name): wanted.name}
            )
        else:
            self.libvirt.define_guest(server, mdevs={name: wanted.name})
        self.libvirt.start_guest(server)
        self.servers[server] = {name: wanted.name}

    @stateful.rule(data=st.data())
    def stop_server(self, data: st.DataObject) -> None:
        if self.servers:
            server = data.draw(st.sampled_from(sorted(self.servers)))
            self.libvirt.stop_guest(server)

    @stateful.rule(data=st.data())
    def delete_server(self, data: st.DataObject) -> None:
        if self.servers:
            server = data.draw(st.sampled_from(sorted(self.servers)))
            self.libvirt.stop_guest(server)
            self.libvirt.undefine_guest(server)
            del self.servers[server]

    # -- misfortune ---------------------------------------------------------

    @stateful.rule(upgrade=st.booleans(), autostarts=st.booleans())
    def reboot(self, upgrade: bool, autostarts: bool) -> None:
        """And whatever the declaration is by then, servers get theirs."""
        self.libvirt.autostarts = autostarts
        self.kernel.faults.clear()
        self.tools.behaviour.locked = self.tools.behaviour.abandons = 0
        self._apply()  # the names of what is there are known then
        self.kernel.reboot(upgrade=upgrade)
        self.libvirt.listAllDomains()  # and libvirt is up again

    @stateful.rule(gpu=_GPUS)
    def unplug(self, gpu: str) -> None:
        address = values.PciAddress.parse(gpu)
        if gpu in self.unplugged or self._is_used(gpu):
            return
        self.unplugged[gpu] = self.kernel.get(address)
        self.kernel.unplug(address)

    @stateful.rule(data=st.data())
    def plug(self, data: st.DataObject) -> None:
        if self.unplugged:
            gpu = data.draw(st.sampled_from(sorted(self.unplugged)))
            card = self.unplugged.pop(gpu)
            fresh = live.fresh(card, self.kernel)
            self.kernel.plug(fresh)

    @stateful.rule(number=_FAULTS, file=st.sampled_from(['vgpu_type', 'vfs']))
    def break_a_write(self, number: int, file: str) -> None:
        self.kernel.fail(file, number)

    @stateful.rule(locked=st.integers(0, 3), abandons=st.integers(0, 1))
    def trouble_the_tool(self, locked: int, abandons: int) -> None:
        self.tools.behaviour.locked = locked
        self.tools.behaviour.abandons = abandons

    # -- what holds ---------------------------------------------------------

    @stateful.invariant()
    def what_servers_run_with_is_there(self) -> None:
        described = self.host.describe()
        for server, vgpus in self.servers.items():
            if self.libvirt.guests[server].running:
                for name, type_name in vgpus.items():
                    assert described.get(name) == type_name, (
                        f'{name} of {server} is {described.get(name)}'
                    )

    @stateful.invariant()
    def no_vgpu_is_in_two_servers(self) -> None:
        names = [n for vgpus in self.servers.values() for n in vgpus]
        assert len(names) == len(set(names)), names

    def _check_declared(self) -> None:
        """Every declared GPU serves, and servers can start."""
        state = self._read()
        made = plans.make_plan(live.declare(self.declared), state.host)
        assert not made.problems_of(values.Severity.ERROR), made.problems
        modes = self._read_modes(state.host)
        for assigned in made.assignments:
            is_mixed = modes.of(assigned.gpu.address).heterogeneous
            assert is_mixed or not assigned.beside, assigned
        for server, vgpus in self.servers.items():
            there = self.host.describe()
            gpus = {self._gpu_of(name) for name in vgpus}
            declared = {str(a.gpu) for a in made.assignments}
            if gpus <= declared and not self.libvirt.guests[server].running:
                assert all(there.get(n) == t for n, t in vgpus.items()), (
                    f'{server} cannot start: {vgpus} of {there}'
                )
                self.libvirt.start_guest(server)

    def _check_mistakes(self, outcome: step_runner.Outcome) -> None:
        """An mdev of another type than its server has is said to be so."""
        there = self.host.describe()
        said = '\n'.join(map(str, outcome.refusals))
        plan = plans.make_plan(live.declare(self.declared), self.host.read())
        declared = {str(assigned.gpu) for assigned in plan.assignments}
        for vgpus in self.servers.values():
            for name, type_name in vgpus.items():
                if name.startswith('pci_') or there.get(name) == type_name:
                    continue
                assert (
                    name not in there
                    or self._gpu_of(name) not in declared
                    or f'noted as {type_name}' in said
                ), f'{name} is {there[name]}, not {type_name}: {said}'

    # -- helpers ------------------------------------------------------------

    def _read_modes(self, _host: values.Host) -> values.ModesRead:
        return values.ModesRead(
            tuple(
                (card.address, values.GPUModes(heterogeneous=card.mixed))
                for card in self.kernel.gpus
            )
        )

    def _apply(self) -> step_runner.Outcome | None:
        try:
            return self.host.apply(self.declared)
        except exception.InvalidLibvirtGPUConfig:
            assert self.unplugged  # its address is not on the host
            return None

    def _read(self) -> host_access.HostState:
        return host_access.read_state(
            self.host.access, self.libvirt, live.Recorder().warn
        )

    def _gpu_of(self, name: str) -> str | None:
        """The GPU that a vGPU of a server is on, or was."""
        for mdev in self.libvirt.mdevs.devices.values():
            if mdev.uuid == name:
                name = mdev.parent()
        for gpu in _TYPES:
            if name.startswith(f'pci_{gpu[:7].replace(":", "_")}'):
                return gpu
        return None

    def _is_used(self, gpu: str) -> bool:
        return any(
            self._gpu_of(name) == gpu
            for vgpus in self.servers.values()
            for name in vgpus
        )


def _address(function: str) -> str:
    return '{}:{}:{}.{}'.format(*function.removeprefix('pci_').split('_'))


class TestSequences(Life.TestCase):  # type: ignore[misc,valid-type] # made at run time
    settings = hypothesis.settings(
        max_examples=_SEQUENCES,
        stateful_step_count=20,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
