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

"""What holds for every configuration on every host."""

import dataclasses

import hypothesis
import os_traits
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.plan import mapper
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.tests import plans
from nova_vgpu.tests.unit import divided
from nova_vgpu.tests.unit import strategies

FATAL = values.Severity.FATAL
UNDER_TWO_TYPES = 'gpu-under-two-types'

# The same examples on each run, and as long as they take on a busy machine.
hypothesis.settings.register_profile(
    'nova_vgpu',
    derandomize=True,
    database=None,
    print_blob=True,
    max_examples=100,
    suppress_health_check=(
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.data_too_large,
    ),
)
SETTINGS = hypothesis.settings.get_profile('nova_vgpu')

any_world = hypothesis.given(world=strategies.worlds())
sound_world = hypothesis.given(
    world=strategies.worlds(sound=True) | divided.worlds()
)


def plan_of(world: strategies.World) -> values.Plan:
    return plans.make_plan(world.declaration, world.host)


def codes_of(
    plan: values.Plan, code: str, **fields: object
) -> list[values.Problem]:
    return [
        problem
        for problem in plan.problems
        if problem.code == code
        and all(getattr(problem, f) == value for f, value in fields.items())
    ]


class TestGPUs(testtools.TestCase):
    """Where each GPU of the host ends up."""

    @SETTINGS
    @any_world
    def test_every_gpu_has_one_place(self, world: strategies.World) -> None:
        plan = plan_of(world)
        places = [assigned.gpu.name for assigned in plan.assignments]
        # One that is divided is in the place of each of its types.
        places = [*dict.fromkeys(places)]
        places += [left.gpu.name for left in plan.left_alone]
        self.assertEqual(
            sorted(gpu.name for gpu in world.host.gpus), sorted(places)
        )

    @SETTINGS
    @any_world
    def test_a_gpu_under_two_types_is_refused_by_name(
        self, world: strategies.World
    ) -> None:
        plan = plan_of(world)
        for gpu in world.host.gpus:
            claimants = world.claimants(gpu)
            found = codes_of(plan, UNDER_TWO_TYPES, subject=str(gpu))
            is_conflict = len(claimants) > 1 and not world.is_divided(gpu)
            self.assertEqual(is_conflict, len(found) == 1, gpu.name)
            for problem in found:
                self.assertIs(FATAL, problem.severity)
                self.assertIn(str(gpu), problem.message)
                for name in claimants:
                    self.assertIn(f'[vgpu_{name}]', problem.message)

    @SETTINGS
    @any_world
    def test_a_listed_gpu_serves_the_type_that_lists_it(
        self, world: strategies.World
    ) -> None:
        assigned = {a.gpu.name: a for a in plan_of(world).assignments}
        for gpu in world.host.gpus:
            claimants = world.claimants(gpu)
            if len(claimants) == 1:
                found = assigned[gpu.name]
                self.assertEqual(claimants, {found.declared.name})
                self.assertIs(values.Reason.LISTED, found.reason)
            elif world.is_divided(gpu):
                self.assertIn(assigned[gpu.name].declared.name, claimants)
                self.assertIsNotNone(assigned[gpu.name].share)
            elif gpu.name in assigned:
                found = assigned[gpu.name]
                self.assertIs(values.Reason.FIRST_TYPE, found.reason)
                self.assertEqual(world.declaration.types[0], found.declared)
                self.assertIs(
                    values.UnlistedGPUs.FIRST_TYPE, world.declaration.unlisted
                )

    @SETTINGS
    @any_world
    def test_nothing_set_changes_nothing(
        self, world: strategies.World
    ) -> None:
        plan = plans.make_plan(values.Declaration(), world.host)
        self.assertEqual((), plan.assignments)
        self.assertEqual((), plan.problems_of(FATAL))


class TestProviders(testtools.TestCase):
    """What Placement would hold."""

    @hypothesis.settings(SETTINGS, max_examples=300)
    @sound_world
    def test_no_gpu_promises_more_than_it_serves(
        self, world: strategies.World
    ) -> None:
        plan = plan_of(world)
        by_name = {f'node_{a.device}': a for a in plan.assignments}
        for provider in plans.list_providers(plan, 'node'):
            assigned = by_name.pop(provider.name)
            self.assertGreaterEqual(provider.total, 1)
            existing = _count_existing(assigned)
            self.assertGreaterEqual(provider.total, existing)
            for bound, most in _bounds(assigned).items():
                self.assertLessEqual(
                    provider.total, max(most, existing), bound
                )
        for idle in by_name.values():
            # An assignment without a provider has a problem that says why:
            # the GPU's own, or the one of a type that no GPU offers.
            told = [
                p
                for p in plan.problems
                if p.subject == str(idle.gpu)
                or (
                    p.code == 'type-on-no-gpu'
                    and repr(idle.declared.name) in p.message
                )
            ]
            self.assertNotEqual([], told, idle.gpu.name)

    @SETTINGS
    @sound_world
    def test_placement_takes_every_trait(
        self, world: strategies.World
    ) -> None:
        plan = plan_of(world)
        standard = set(os_traits.get_traits())
        refused = {
            trait
            for declared in world.declaration.types
            for trait in declared.traits
            if codes_of(plan, 'bad-trait', subject=declared.option('traits'))
        }
        for provider in plans.list_providers(plan, 'node'):
            self.assertIn('OWNER_NOVA', provider.traits)
            for trait in {*provider.traits} - refused:
                if trait not in standard:
                    self.assertThat(
                        trait,
                        testtools.matchers.MatchesRegex(
                            r'CUSTOM_[A-Z0-9_]{1,248}\Z'
                        ),
                    )


class TestProblems(testtools.TestCase):
    """What an operator is told."""

    @SETTINGS
    @any_world
    def test_the_same_is_said_until_it_is_put_right(
        self, world: strategies.World
    ) -> None:
        plan = plan_of(world)
        self.assertEqual(plan, plan_of(world))
        self.assertEqual(len(set(plan.problems)), len(plan.problems))
        again = plans.make_plan(
            world.declaration, world.host, problems=plan.problems
        )
        self.assertEqual(set(plan.problems), set(again.problems))

    @SETTINGS
    @any_world
    def test_every_bad_address_has_a_problem_that_shows_it(
        self, world: strategies.World
    ) -> None:
        plan = plan_of(world)
        for declared in world.declaration.types:
            option = declared.option('device_addresses')
            for address in world.written[declared.name]:
                if address.gpu is not None:
                    continue
                shown = address.text
                if address.code == strategies.MALFORMED:
                    shown = repr(shown)
                found = [
                    problem
                    for problem in codes_of(plan, address.code, subject=option)
                    if shown in problem.message
                ]
                self.assertNotEqual([], found, address)
                self.assertIs(FATAL, found[0].severity)

    @SETTINGS
    @any_world
    def test_taking_a_bad_address_out_cures_its_problem_and_no_other(
        self, world: strategies.World
    ) -> None:
        before = set(plan_of(world).problems)
        for number, declared in enumerate(world.declaration.types):
            for address in world.written[declared.name]:
                if address.gpu is not None:
                    continue
                cured = _without(declared, address.text)
                types = list(world.declaration.types)
                types[number] = cured
                after = set(
                    plans.make_plan(
                        dataclasses.replace(
                            world.declaration, types=tuple(types)
                        ),
                        world.host,
                    ).problems
                )
                self.assertEqual(
                    [address.code], [p.code for p in before - after]
                )
                # A type whose last address goes may now come to nothing.
                new = {problem.code for problem in after - before}
                allowed = (
                    set()
                    if cured.device_addresses
                    else {'type-unused', 'type-on-no-gpu'}
                )
                self.assertEqual(set(), new - allowed)

    @SETTINGS
    @any_world
    def test_what_the_operator_wrote_wrongly_stops_the_service(
        self, world: strategies.World
    ) -> None:
        plan = plan_of(world)
        fatal = [p for p in plan.problems if p.severity is FATAL]
        try:
            mapper.require_valid(plan)
        except exception.InvalidLibvirtGPUConfig as error:
            self.assertNotEqual([], fatal)
            self.assertEqual(fatal, list(error.problems))
            for problem in fatal:
                self.assertIn(problem.message, str(error))
        else:
            self.assertEqual([], fatal)

    @SETTINGS
    @any_world
    def test_hardware_alone_never_stops_the_service(
        self, world: strategies.World
    ) -> None:
        written_well = all(
            address.gpu is not None
            for addresses in world.written.values()
            for address in addresses
        )
        undisputed = all(
            len(world.claimants(gpu)) < 2 for gpu in world.host.gpus
        )
        if written_well and undisputed:
            fatal = {p.code for p in plan_of(world).problems_of(FATAL)}
            self.assertEqual(set(), fatal - {'bad-trait'})


def _count_existing(assigned: values.Assignment) -> int:
    assert assigned.type is not None
    return sum(
        vgpu.type_id == assigned.type.id
        and vgpu.function in assigned.functions
        for vgpu in assigned.gpu.all_vgpus
    )


def _bounds(assigned: values.Assignment) -> dict[str, int]:
    """Everything that bounds a GPU's total, counted anew."""
    gpu, vgpu_type = assigned.gpu, assigned.type
    assert vgpu_type is not None
    offered = [(gpu.name, offer) for offer in gpu.offers]
    offered += [(vf.name, offer) for vf in gpu.vfs for offer in vf.offers]
    bounds = {
        'existing and room': _count_existing(assigned)
        + sum(
            offer.available
            for function, offer in offered
            if offer.type.id == vgpu_type.id and function in assigned.functions
        )
    }
    if vgpu_type.facts.max_instances is not None:
        bounds['type maximum'] = vgpu_type.facts.max_instances
    if assigned.declared.max_instances is not None:
        bounds['max_instances'] = assigned.declared.max_instances
    if not gpu.offers and not gpu.vgpus:
        usable = [vf for vf in gpu.vfs if vf.name in assigned.functions]
        bounds['usable VFs'] = len(usable)
    return bounds


def _without(
    declared: values.DeclaredType, address: str
) -> values.DeclaredType:
    return dataclasses.replace(
        declared,
        device_addresses=tuple(
            text for text in declared.device_addresses if text != address
        ),
    )


class TestSimulation(testtools.TestCase):
    """Hosts that are written as a tree and read back."""

    @SETTINGS
    @hypothesis.given(simulated=strategies.simulated_hosts())
    def test_what_is_read_is_what_is_there(
        self, simulated: simulation.SimulatedHost
    ) -> None:
        host = strategies.read_back(simulated)
        self.assertEqual((), host.faults)
        by_address = {gpu.address: gpu for gpu in host.gpus}
        self.assertEqual(simulated.mtty, None in by_address)
        for there in simulated.gpus:
            if there.address in by_address:
                found = by_address[there.address]
                self.assertEqual(
                    list(there.vf_addresses), [v.address for v in found.vfs]
                )
                self.assertEqual(there.bound_driver, found.driver)
                self.assertEqual(
                    sorted(created.type_id for created in there.created),
                    sorted(vgpu.type_id for vgpu in found.all_vgpus),
                )
            else:
                self.assertEqual(0x02, there.board.pci_class >> 16)
                self.assertIn(there.address, host.other_functions)
