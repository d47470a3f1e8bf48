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

"""Whatever happens to VFs that the kernel provisions, in whatever order.

How many sequences are tried is said by ``HYPOTHESIS_SEQUENCES``, as for those
of GPUs with types.
"""

import errno

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from nova_vgpu import values
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import host_access
from nova_vgpu.reconcile import manual_steps
from nova_vgpu.reconcile import vgpu_facts
from nova_vgpu.sandbox import boards
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live
from nova_vgpu.tests import plans
from nova_vgpu.tests.unit.lifecycle import test_sequences

B60 = '0000:03:00.0'
_FAULTS = st.sampled_from([errno.EIO, errno.EBUSY, errno.ENOSPC, errno.EINVAL])
_FILES = st.sampled_from(['vram_quota', 'exec_quantum_ms', 'sriov_numvfs'])


@st.composite
def _declarations(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(['B60-1of2', 'B60-1of4', 'B60-6G', 'B60-11G']))
    quantum = draw(st.sampled_from([None, 0, 20]))
    lines = ['[devices]', f'enabled_vgpu_types = {name}']
    lines += [f'[vgpu_{name}]', f'device_addresses = {B60}']
    if quantum is not None:
        lines.append(f'exec_quantum_ms = {quantum}')
    return '\n'.join(lines)


class Life(stateful.RuleBasedStateMachine):
    """A host, its operator, its servers, and misfortune."""

    def __init__(self) -> None:
        super().__init__()
        self.host = live.LiveHost(hosts.gpu(B60, boards.ARC_PRO_B60))
        self.host.setUp()
        self.libvirt = self.host.machine.libvirt
        self.kernel = self.host.machine.kernel
        self.declared = _EQUAL
        #: The functions of servers, and how many there were beside them.
        self.servers: dict[str, str] = {}
        self.beside: dict[str, int] = {}
        self.booted = 0

    def teardown(self) -> None:
        self.host.cleanUp()

    @stateful.rule(text=_declarations())
    def edit_nova_conf(self, text: str) -> None:
        self.declared = text

    @stateful.rule()
    def apply(self) -> None:
        outcome = self.host.apply(self.declared)
        if outcome.failures:
            assert self.kernel.faults  # it was told to fail
            return
        again = self.host.apply(self.declared)
        assert not again.done, again.done
        if not outcome.refusals:
            made = self._plan(self._read())
            assert not made.problems, made.problems
            (assigned,) = made.assignments
            assert assigned.capacity is not None
            assert assigned.capacity.total == len(assigned.gpu.vfs)

    @stateful.rule()
    def restore(self) -> None:
        apply.restore(self.host.access, live.Recorder())

    @stateful.rule()
    def disable_vfs(self) -> None:
        def plan(state: host_access.HostState) -> apply.ManualSteps:
            (gpu,) = state.host.gpus
            return apply.ManualSteps((manual_steps.disable_vfs(gpu),))

        apply.execute(self.host.access, plan, live.Recorder())

    @stateful.rule()
    def boot_server(self) -> None:
        """As nova-compute does it: an idle VF."""
        state = self._read()
        for assigned in self._plan(state).assignments:
            taken = set(state.usage.owners)
            for name in vgpu_facts.list_idle(assigned, taken)[:1]:
                self.booted += 1
                server = f'server-{self.booted:03}'
                address = '{}:{}:{}.{}'.format(*name.split('_')[1:])
                self.libvirt.define_guest(server, functions={address: None})
                self.libvirt.start_guest(server)
                self.servers[server] = address
                self.beside[server] = len(assigned.gpu.vfs)

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

    @stateful.rule()
    def reboot(self) -> None:
        self.kernel.faults.clear()
        self.kernel.reboot()
        self.libvirt.listAllDomains()  # and libvirt is up again

    @stateful.rule(number=_FAULTS, file=_FILES)
    def break_a_write(self, number: int, file: str) -> None:
        self.kernel.fail(file, number)

    @stateful.invariant()
    def a_server_that_runs_keeps_its_function(self) -> None:
        vfs = self.kernel.get(values.PciAddress.parse(B60)).vf_addresses
        for server, address in self.servers.items():
            if self.libvirt.guests[server].running:
                assert address in map(str, vfs), (server, address)
                assert len(vfs) == self.beside[server], (server, len(vfs))

    @stateful.invariant()
    def no_function_is_given_twice(self) -> None:
        given = list(self.servers.values())
        assert len(given) == len(set(given)), given

    def _read(self) -> host_access.HostState:
        with self.host.access.connect() as connection:
            return host_access.read_state(self.host.access, connection, print)

    def _plan(self, state: host_access.HostState) -> values.Plan:
        return plans.make_plan(live.declare(self.declared), state.host)


_EQUAL = f"""
[devices]
enabled_vgpu_types = B60-1of4
[vgpu_B60-1of4]
device_addresses = {B60}
"""

TestLife = Life.TestCase
TestLife.settings = hypothesis.settings(
    max_examples=test_sequences._SEQUENCES,
    stateful_step_count=30,
    deadline=None,
)
