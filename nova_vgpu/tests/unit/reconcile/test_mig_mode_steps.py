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


"""When MIG mode is switched: by whom, for which types, beside whom."""

import dataclasses
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.host import sysfs
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy
from nova_vgpu.reconcile import way_back
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import kernel
from nova_vgpu.sandbox import modes
from nova_vgpu.tests import live
from nova_vgpu.tests import migs
from nova_vgpu.tests import plans

ON = migs.declare(migs.SWITCH, **{migs.TWO: 2})
OFF = migs.declare(migs.SWITCH, **{migs.HALF: None})
APPLY = policy.for_apply(values.Creation.ON_DEMAND, True)
FIRST = values.PciAddress.parse(migs.FIRST).node_device_name
IDLE = values.Usage()
NAMES = {t.id: t.name or '' for t in boards.A100D.types}


class DecisionTestCase(testtools.TestCase):
    def plan(
        self,
        text: str,
        card: simulation.GPU,
        usage: values.Usage = IDLE,
        its_policy: policy.Policy = APPLY,
        names: dict[str, str] = NAMES,
    ) -> values.GPUSteps:
        its_kernel = kernel.Kernel(card)
        host = sysfs.read_host(its_kernel.files)
        made = plans.make_plan(
            live.declare(text), host, modes=modes.read_modes(its_kernel)
        )
        found = gpu_steps.plan_steps(
            made, names, usage, its_policy, lambda: 'new'
        )
        return next(iter(found), values.GPUSteps(migs.ADDRESS))

    def switches(self, *args: typing.Any, **kwargs: typing.Any) -> bool:
        found = self.plan(*args, **kwargs)
        return any(isinstance(s, values.SetMigMode) for s in found.steps)


class TestPolicies(DecisionTestCase):
    def test_an_apply_that_may(self) -> None:
        self.assertTrue(self.switches(ON, migs.switchable()))
        for may_not in (
            policy.for_apply(values.Creation.ON_DEMAND),
            policy.for_apply(values.Creation.AHEAD),
        ):
            self.assertFalse(
                self.switches(ON, migs.switchable(), its_policy=may_not)
            )

    def test_nova_compute_never_does(self) -> None:
        vfs_on = dataclasses.replace(migs.switchable(), vfs=8)
        on = dataclasses.replace(migs.switchable(mig_mode=True), vfs=8)
        for creation in values.Creation:
            for knows in (True, False):
                its = policy.for_compute(creation, knows)
                self.assertFalse(self.switches(ON, vfs_on, its_policy=its))
                self.assertFalse(self.switches(OFF, on, its_policy=its))


class TestTypes(DecisionTestCase):
    def test_all_of_a_gpu_that_is_divided(self) -> None:
        for numbers, expected in (
            ({migs.FOUR: 1, migs.ONE: 3}, True),
            ({migs.FOUR: 1, migs.HALF: 1}, False),
            ({migs.HALF: 1, migs.QUARTER: 1}, False),
        ):
            text = migs.declare(migs.SWITCH, **numbers)
            found = self.switches(text, migs.switchable())
            self.assertIs(expected, found, str(numbers))

    def test_an_id_whose_name_is_not_known(self) -> None:
        text = ON.replace(migs.TWO, 'nvidia-700')
        card = migs.switchable()
        self.assertTrue(self.switches(text, card))
        self.assertFalse(self.switches(text, card, names={}))

    def test_a_size_that_the_model_does_not_have(self) -> None:
        text = migs.declare(migs.SWITCH, **{'A100D-6-60C': 1})
        self.assertFalse(self.switches(text, migs.switchable()))

    def test_a_model_that_is_not_known_must_be_listed(self) -> None:
        """As long as its functions are disabled, nothing names it."""
        board = dataclasses.replace(
            migs.BOTH_KINDS, device=1, subsystem=(1, 1)
        )
        card = dataclasses.replace(migs.switchable(), board=board)
        self.assertTrue(self.switches(ON, card))
        unlisted = '\n'.join(ON.splitlines()[:-1])
        self.assertFalse(self.switches(unlisted, card))
        self.assertTrue(self.switches(unlisted, migs.switchable()))


class TestUse(DecisionTestCase):
    def refuse(self, usage: values.Usage, text: str = ON) -> str:
        card = dataclasses.replace(migs.switchable(), vfs=8)
        found = self.plan(text, card, usage)
        for step in found.steps:
            self.assertNotIsInstance(step, values.SetMigMode | values.SetVFs)
        (refusal,) = found.refusals
        return str(refusal)

    def test_a_function_that_was_chosen_for_a_server(self) -> None:
        usage = values.Usage(claimed=frozenset({FIRST}))
        self.assertIn('is being started', self.refuse(usage))

    def test_functions_that_nova_assigns(self) -> None:
        spec = f'[pci]\ndevice_spec = {{"address": "{migs.FIRST}"}}\n'
        said = self.refuse(IDLE, f'{spec}{ON}')
        self.assertIn('[pci]device_spec', said)


class TestWayBack(testtools.TestCase):
    """One that was cut off is in the way of the next one."""

    planned = values.GPUSteps(
        migs.ADDRESS,
        (
            values.SetType(migs.ADDRESS, migs.FIRST, 'GRID A100D-40C', ''),
            values.SetVFs(migs.ADDRESS, 8, 0),
            values.SetMigMode(migs.ADDRESS, False, True),
        ),
    )
    back = (
        values.SetMigMode(migs.ADDRESS, True, False),
        values.SetVFs(migs.ADDRESS, 0, 8),
        values.SetType(migs.ADDRESS, migs.FIRST, '', 'GRID A100D-40C'),
    )

    def plan(
        self, planned: values.GPUSteps, *created: str, **state: typing.Any
    ) -> tuple[values.Step, ...]:
        vgpus = tuple(simulation.Created(name, 0) for name in created)
        card = dataclasses.replace(migs.switchable(), vfs=8, created=vgpus)
        card = dataclasses.replace(card, **state)
        host = sysfs.read_host(kernel.Kernel(card).files)
        named = dataclasses.replace(host, type_names=tuple(NAMES.items()))
        return way_back.plan(planned, named).steps

    def test_what_came_back(self) -> None:
        self.assertEqual(self.back, self.plan(self.planned))
        half, whole = 'nvidia-697', 'nvidia-698'
        first = self.planned.steps[0]
        self.assertEqual((first, *self.back), self.plan(self.planned, half))
        # Of another type: this way back did not make it.
        self.assertEqual(self.back, self.plan(self.planned, whole))

    def test_a_gpu_on_the_stub_driver(self) -> None:
        self.assertEqual(
            (values.RepairDriver(migs.ADDRESS), *self.back),
            self.plan(self.planned, driver='pci-pf-stub'),
        )

    def test_without_a_switch_it_begins_with_its_last_step(self) -> None:
        without = dataclasses.replace(
            self.planned, steps=self.planned.steps[:1]
        )
        found = self.plan(without, 'nvidia-697', driver='pci-pf-stub')
        self.assertEqual(self.back[-1:], found)
