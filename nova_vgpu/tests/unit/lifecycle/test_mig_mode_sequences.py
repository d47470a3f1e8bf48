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


"""Whatever happens to a GPU whose MIG mode is switched, in whatever order.

How many sequences are tried is said by ``HYPOTHESIS_SEQUENCES``, as for the
others.
"""

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.tests import migs
from nova_vgpu.tests.unit.lifecycle import test_gpu_instance_sequences
from nova_vgpu.tests.unit.lifecycle import test_sequences

_GPU = test_gpu_instance_sequences._GPU
_NUMBERS = st.sampled_from(
    [
        {migs.ONE: None},
        {migs.FOUR: 1, migs.ONE: 3},
        {migs.TWO: 2, migs.ONE: 3},
        {migs.HALF: None},
        {migs.QUARTER: 3},
        {migs.HALF: 1, migs.QUARTER: 2},
    ]
)


class Life(test_gpu_instance_sequences.Life):
    """A host, its operator, its servers, and misfortune."""

    first = migs.switchable()

    def __init__(self) -> None:
        super().__init__()
        self.switches = False
        #: The mode, and the pending one, since a process uses the GPU.
        self.mode_of_process: tuple[bool, bool | None] | None = None

    @stateful.initialize(vfio=st.booleans(), is_lost=st.booleans())
    def choose_the_gpu(self, vfio: bool, is_lost: bool) -> None:
        self.kernel.update(_GPU, vendor_vfio=vfio, mig_is_lost=is_lost)
        self.kernel.settle()

    @stateful.rule(
        numbers=_NUMBERS,
        creation=test_gpu_instance_sequences._CREATION,
        switches=st.sampled_from([True, True, True, False]),
    )
    def edit_nova_conf(
        self, numbers: dict[str, int | None], creation: str, switches: bool
    ) -> None:
        self.numbers, self.switches = numbers, switches
        options = [f'vgpu_creation = {creation}']
        if switches:
            options.append(migs.SWITCH)
        self.declared = migs.declare(*options, **numbers)

    @stateful.rule()
    def apply(self) -> None:
        before = self._card()
        super().apply()
        after = self._card()
        if not self.switches:
            assert before.mig_mode is after.mig_mode

    @stateful.rule()
    def start_a_process_without_an_instance(self) -> None:
        card = self._card()
        if not card.mig_mode and self.mode_of_process is None:
            self.kernel.update(_GPU, has_process=True)
            self.kernel.settle()
            self.mode_of_process = card.mig_mode, card.mig_pending

    @stateful.rule()
    def end_processes(self) -> None:
        super().end_processes()
        self.kernel.update(_GPU, has_process=False)
        self.kernel.settle()
        self.mode_of_process = None

    @stateful.rule()
    def reboot(self) -> None:
        self.mode_of_process = None
        self.tools.behaviour.pends = 0
        super().reboot()

    @stateful.rule(pends=st.integers(0, 9))
    def open_the_gpu(self, pends: int) -> None:
        self.tools.behaviour.pends = pends

    @stateful.invariant()
    def the_mode_stays_while_a_process_uses_the_gpu(self) -> None:
        if self.mode_of_process is not None:
            card = self._card()
            now = card.mig_mode, card.mig_pending
            assert now == self.mode_of_process

    def _may_fail(self, said: str) -> bool:
        """In the other mode, what servers had does not come back."""
        names = (*self.numbers, *(name for _, name in self.servers.values()))
        needs_mig = {
            capabilities.is_backed_by_mig(values.VGPUType(name, name))
            for name in names
        }
        if needs_mig != {self._card().mig_mode} or 'is pending' in said:
            return True
        return super()._may_fail(said)

    def _check_declared(self) -> None:
        if self.switches and not self._is_to_mix_too_late():
            super()._check_declared()

    def _is_to_mix_too_late(self) -> bool:
        """Whether a server got its vGPU before an apply let sizes mix."""
        card = self._card()
        there = {card.name_of(created) for created in card.created}
        has_server = any(name in there for name, _ in self.servers.values())
        found = self._plan(self._read()).problems
        return has_server and any(p.code == 'heterogeneous-off' for p in found)


TestLife = Life.TestCase
TestLife.settings = hypothesis.settings(
    max_examples=test_sequences._SEQUENCES,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
