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

"""Whatever happens to GPU instances, in whatever order.

How many sequences are tried is said by ``HYPOTHESIS_SEQUENCES``, as for those
of GPUs without MIG mode.
"""

import dataclasses

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from nova_vgpu import values
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import host_access
from nova_vgpu.reconcile import manual_steps
from nova_vgpu.reconcile import vgpu_facts
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import mig
from nova_vgpu.sandbox import modes
from nova_vgpu.tests import live
from nova_vgpu.tests import migs
from nova_vgpu.tests import plans
from nova_vgpu.tests.unit.lifecycle import test_sequences

_GPU = values.PciAddress.parse(migs.ADDRESS)
_NUMBERS = st.sampled_from(
    [
        {migs.ONE: None},
        {migs.ONE: 3},
        {migs.TWO: None},
        {migs.THREE: 2},
        {migs.FOUR: 1, migs.ONE: 3},
        {migs.THREE: 1, migs.TWO: 1, migs.ONE: 2},
        {migs.TWO: 2, migs.ONE: 3},
    ]
)
_CREATION = st.sampled_from(['on-demand', 'ahead'])


class Life(stateful.RuleBasedStateMachine):
    """A host, its operator, its servers, and misfortune."""

    #: The GPU at the beginning.
    first = migs.gpu()

    def __init__(self) -> None:
        super().__init__()
        self.host = live.LiveHost(self.first)
        self.host.setUp()
        self.libvirt = self.host.machine.libvirt
        self.kernel = self.host.machine.kernel
        self.tools = self.host.machine.tools
        self.numbers: dict[str, int | None] = {migs.ONE: None}
        self.declared = migs.declare(**self.numbers)
        #: The functions of servers, and their types.
        self.servers: dict[str, tuple[str, str]] = {}
        #: The ids of instances that processes have.
        self.processes: set[mig.Instance] = set()
        self.booted = 0

    def teardown(self) -> None:
        self.host.cleanUp()

    @stateful.rule(numbers=_NUMBERS, creation=_CREATION)
    def edit_nova_conf(
        self, numbers: dict[str, int | None], creation: str
    ) -> None:
        self.numbers = numbers
        option = f'vgpu_creation = {creation}'
        self.declared = migs.declare(option, **numbers)

    @stateful.rule()
    def apply(self) -> None:
        outcome = self.host.apply(self.declared)
        if outcome.failures:
            said = ' '.join(map(str, outcome.failures))
            assert self._may_fail(said), said
            return
        again = self.host.apply(self.declared)
        assert not again.done, again.done
        if not outcome.refusals:
            self._check_declared()

    def _may_fail(self, said: str) -> bool:
        """It was told to fail, or what is in use is at the wrong place."""
        if self.tools.behaviour.abandons or 'Failed to enable VFs' in said:
            return True
        return 'Insufficient Resources' in said

    @stateful.rule()
    def restore(self) -> None:
        apply.restore(self.host.access, live.Recorder())

    @stateful.rule()
    def disable_vfs(self) -> None:
        def plan(state: host_access.HostState) -> apply.ManualSteps:
            (gpu,) = state.host.gpus
            return apply.ManualSteps((manual_steps.disable_vfs(gpu),))

        if not self.processes:
            apply.execute(self.host.access, plan, live.Recorder())

    @stateful.rule(data=st.data())
    def boot_server(self, data: st.DataObject) -> None:
        """As nova-compute does it: a function that has room for the type."""
        state = self._read()
        serving = [a for a in self._plan(state).assignments if a.serves]
        if not serving:
            return
        assigned = data.draw(st.sampled_from(serving))
        taken = set(state.usage.owners)
        taken.update(mdev.parent for mdev in state.usage.mdevs)
        idle = vgpu_facts.list_idle(assigned, taken)
        function = next(vgpu_facts.list_rooms(assigned, taken), None)
        assert assigned.type is not None and assigned.type.name is not None
        if not idle and function is None:
            return
        name = idle[0] if idle else None
        if name is None:
            assert function is not None
            name = self._create(function, assigned.type.name)
        self.booted += 1
        server = f'server-{self.booted:03}'
        self._define(server, name, assigned.type.name)
        self.libvirt.start_guest(server)
        self.servers[server] = (name, assigned.type.name)

    def _create(self, function: str, type_name: str) -> str:
        """A vGPU of a function; its name."""
        address = _spell(function)
        if not self._card().vendor_vfio:
            return self.host.create_mdev(address, type_name)
        self.host.set_type(address, type_name)
        return function

    def _define(self, server: str, name: str, type_name: str) -> None:
        if self._card().vendor_vfio:
            functions = {_spell(name): type_name}
            self.libvirt.define_guest(server, functions=functions)
        else:
            self.libvirt.define_guest(server, mdevs={name: type_name})

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

    @stateful.rule(data=st.data())
    def start_a_process(self, data: st.DataObject) -> None:
        found = self._card().gpu_instances
        free = [i for i in found if not i.has_process and not self._has(i)]
        if free:
            chosen = data.draw(st.sampled_from(free))
            used = dataclasses.replace(chosen, has_process=True)
            self._replace(chosen, used)
            self.processes.add(used)

    @stateful.rule()
    def end_processes(self) -> None:
        for used in sorted(self.processes, key=lambda i: i.id):
            self._replace(used, dataclasses.replace(used, has_process=False))
        self.processes.clear()

    @stateful.rule()
    def reboot(self) -> None:
        self.processes.clear()
        self.tools.behaviour.abandons = self.tools.behaviour.in_use = 0
        self.kernel.reboot()
        self.libvirt.listAllDomains()  # and libvirt is up again

    @stateful.rule(abandons=st.integers(0, 1), in_use=st.integers(0, 3))
    def trouble_the_tools(self, abandons: int, in_use: int) -> None:
        self.tools.behaviour.abandons = abandons
        self.tools.behaviour.in_use = in_use

    @stateful.invariant()
    def a_vgpu_that_runs_keeps_its_instance(self) -> None:
        card = self._card()
        there = {instance.id for instance in card.gpu_instances}
        on = {card.name_of(c): c.gpu_instance for c in card.created}
        described = self.host.describe()
        for server, (name, type_name) in self.servers.items():
            if self.libvirt.guests[server].running:
                assert described.get(name) == type_name, (server, name)
                is_backed = card.mig_mode
                assert (on[name] in there) is is_backed, (server, on)

    @stateful.invariant()
    def an_instance_with_a_process_stays(self) -> None:
        assert self.processes <= set(self._card().gpu_instances)

    def _check_declared(self) -> None:
        """The instances suffice for what is declared."""
        made = self._plan(self._read())
        assert not made.problems, made.problems
        for assigned in made.assignments:
            number = self.numbers[assigned.declared.name]
            assert assigned.capacity is not None
            # More if there are idle vGPUs of the type: they stay.
            assert assigned.capacity.total >= (number or 1), assigned.capacity

    def _card(self) -> simulation.GPU:
        return self.kernel.get(_GPU)

    def _has(self, instance: mig.Instance) -> bool:
        return any(c.gpu_instance == instance.id for c in self._card().created)

    def _replace(self, old: mig.Instance, new: mig.Instance) -> None:
        there = self._card().gpu_instances
        changed = tuple(new if i == old else i for i in there)
        self.kernel.update(_GPU, gpu_instances=changed)
        self.kernel.settle()

    def _read(self) -> host_access.HostState:
        with self.host.access.connect() as connection:
            return host_access.read_state(self.host.access, connection, print)

    def _plan(self, state: host_access.HostState) -> values.Plan:
        return plans.make_plan(
            live.declare(self.declared),
            state.host,
            modes=modes.read_modes(self.kernel),
        )


def _spell(function: str) -> str:
    return '{}:{}:{}.{}'.format(*function.split('_')[1:])


TestLife = Life.TestCase
TestLife.settings = hypothesis.settings(
    max_examples=test_sequences._SEQUENCES,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
