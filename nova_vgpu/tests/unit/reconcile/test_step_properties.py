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

"""What holds for the steps on every host, whoever reconciles it."""

import hypothesis
from hypothesis import strategies as st
import testtools

from nova_vgpu import values
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import policy
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vgpu_facts
from nova_vgpu.tests import plans
from nova_vgpu.tests.unit import divided
from nova_vgpu.tests.unit import strategies
from nova_vgpu.tests.unit import test_properties

APPLY = policy.for_apply(values.Creation.ON_DEMAND)
SETTINGS = hypothesis.settings(test_properties.SETTINGS, max_examples=40)
WORLDS = strategies.worlds(sound=True) | divided.worlds()
COMPUTE = policy.for_compute(values.Creation.ON_DEMAND, True)
POLICIES = (
    APPLY,
    COMPUTE,
    policy.for_apply(values.Creation.AHEAD),
    policy.for_compute(values.Creation.AHEAD, True),
    policy.for_compute(values.Creation.ON_DEMAND, False),
)


@st.composite
def usages(draw: st.DrawFn, host: values.Host) -> values.Usage:
    """Guests, on or off, with vGPUs and functions of a host."""
    types = {t.name for gpu in host.gpus for t in gpu.types if t.name}
    noted = st.none() | st.sampled_from(sorted(types) or ['NVIDIA A40-2Q'])
    names = {v.name for gpu in host.gpus for v in gpu.all_vgpus}
    names |= {vf.name for gpu in host.gpus for vf in gpu.vfs}
    some = st.lists(st.sampled_from(sorted(names) or ['pci_0000_ff_00_0']))
    guests = []
    for number, name in enumerate(sorted(set(draw(some)))):
        function = values.PciAddress.parse_node_device_name(name)
        guests.append(
            values.Guest(
                f'uuid-{number}',
                f'guest-{number}',
                draw(st.booleans()),
                frozenset() if function else frozenset({name}),
                frozenset({function}) if function else frozenset(),
                (values.GuestVGPU(name, draw(noted)),)
                if function is None or draw(st.booleans())
                else (),
            )
        )
    functions = {
        steps.spell(name): draw(noted) or 'NVIDIA L40S-24Q'
        for name in draw(some)
        if name.startswith('pci_')
    }
    return values.Usage(
        tuple(guests),
        records=values.VGPURecords(functions=functions),
        claimed=frozenset(draw(some)),
        released=frozenset(draw(some)),
    )


class TestSteps(testtools.TestCase):
    def plan(
        self,
        plan: values.Plan,
        names: dict[str, str],
        usage: values.Usage,
        its_policy: policy.Policy,
    ) -> list[steps.VGPUStep]:
        found = gpu_steps.plan_steps(
            plan, names, usage, its_policy, lambda: 'new'
        )
        return [
            step
            for of_gpu in found
            for step in of_gpu.steps
            if isinstance(step, steps.VGPUStep)
        ]

    @SETTINGS
    @hypothesis.given(data=st.data(), world=WORLDS)
    def test_nothing_in_use_is_removed(
        self, data: st.DataObject, world: strategies.World
    ) -> None:
        """But what its guest cannot use, while that does not run."""
        usage = data.draw(usages(world.host))
        names = type_matching.list_type_names(world.host)
        there = {v.name: v for g in world.host.gpus for v in g.all_vgpus}
        plan = plans.make_plan(world.declaration, world.host)
        for its_policy in POLICIES:
            for step in self.plan(plan, names, usage, its_policy):
                name = steps.vgpu_in(step)
                if steps.creates(step):
                    continue
                owner = usage.owners.get(name)
                if owner is None:
                    self.assertNotIn(name, usage.claimed)
                else:
                    self.assertFalse(owner.running)
                    self.assertTrue(
                        vgpu_facts.find_wanted_type(there[name], usage, names)
                    )

    @SETTINGS
    @hypothesis.given(data=st.data(), world=WORLDS)
    def test_nova_compute_and_apply_agree(
        self, data: st.DataObject, world: strategies.World
    ) -> None:
        """Neither undoes what the other one does."""
        usage = data.draw(usages(world.host))
        names = type_matching.list_type_names(world.host)
        plan = plans.make_plan(world.declaration, world.host)
        by_compute = self.plan(plan, names, usage, COMPUTE)
        by_apply = self.plan(plan, names, usage, APPLY)
        set_by_apply = {
            step.function: step.after
            for step in by_apply
            if isinstance(step, values.SetType) and step.after
        }
        removed_by_apply = {
            steps.vgpu_in(step) for step in by_apply if not steps.creates(step)
        }
        for step in by_compute:
            name = steps.vgpu_in(step)
            if isinstance(step, values.SetMdev):
                self.assertIn(name, removed_by_apply)
            elif step.after:
                wanted = set_by_apply.get(step.function, step.after)
                self.assertEqual(wanted, step.after)
            elif name not in usage.notes:
                self.assertNotIn(step.function, set_by_apply)
                self.assertNotIn(name, usage.owners)
