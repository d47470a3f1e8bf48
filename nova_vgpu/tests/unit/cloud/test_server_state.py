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

from collections.abc import Mapping
import dataclasses
import typing

import testtools

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.usage import guest_states
from nova_vgpu.cloud.usage import nova_servers
from nova_vgpu.cloud.usage import reasons
from nova_vgpu.cloud.usage import server_details
from nova_vgpu.cloud.usage import server_state
from nova_vgpu.cloud.usage import servers
from nova_vgpu.tests.unit.cloud import clouds

T4 = clouds.gpu('compute1 84', 8, 1)
OTHER_T4 = clouds.gpu('compute1 85', 8, 1)
FAR_T4 = clouds.gpu('compute2 84', 8, 1)
A40 = clouds.gpu('compute1 41', 6, 1, None, clouds.A40)
FENCED = clouds.gpu('compute1 86', 1, 1, 7)
OF_CLASS = clouds.gpu('compute1 c8', 2, 1, None, (), 'CUSTOM_GOLD')
WHOLE = clouds.whole('compute1 C1', 1, 1)
GPUS = (T4, OTHER_T4, FAR_T4, A40, FENCED, OF_CLASS, WHOLE)

ONE: typing.Final = {
    'resources:VGPU': '1',
    'trait:CUSTOM_VGPU_TYPE_T4_2Q': 'required',
}
TWO: typing.Final = {**ONE, 'resources:VGPU': '2'}
GOLD: typing.Final = {'resources:CUSTOM_GOLD': '1'}
PASSED: typing.Final = {'pci_passthrough:alias': 'gpu-A40:1'}
MIXED: typing.Final = {**ONE, 'resources:CUSTOM_GOLD': '1'}
Held = tuple[fleet.GPU, ...] | None
#: What is different of the server.
Others = Mapping[str, typing.Any]
Case = tuple[str, dict[str, str], Held, Others, tuple[str, ...]]


def server(
    extra_specs: dict[str, str], **others: typing.Any
) -> nova_servers.NovaServer:
    made = nova_servers.NovaServer(
        's1',
        'web',
        'p1',
        'ACTIVE',
        flavors.parse('small', extra_specs),
        'compute1',
    )
    return dataclasses.replace(made, **others)


def hold(*gpus: fleet.GPU) -> tuple[servers.Allocation, ...]:
    return tuple(
        servers.Allocation('s1', gpu, gpu.stocks[0].resource_class, 1)
        for gpu in gpus
    )


def codes(
    extra_specs: dict[str, str], held: Held, **others: typing.Any
) -> tuple[str, ...]:
    """The state, and the codes of the reasons."""
    found = server_state.judge(
        server(extra_specs, **others),
        None if held is None else hold(*held),
        () if held is None else GPUS,
    )
    return found.state.value, *(each.code.value for each in found.why)


def judge_with(
    guests: tuple[host_agents.Guest, ...], **others: typing.Any
) -> server_state.Judgement:
    """A server with the vGPU that it asks for, and what its guest told."""
    return server_state.judge(server(ONE, **others), hold(T4), GPUS, guests)


class TestState(testtools.TestCase):
    def compare(self, *cases: Case) -> None:
        for name, extra_specs, held, others, expected in cases:
            found = codes(extra_specs, held, **others)
            self.assertEqual(expected, found, name)

    def test_what_was_asked_and_what_was_allocated(self) -> None:
        failed, attention = 'failed', 'attention'
        self.compare(
            ('all of it', ONE, (T4,), {}, ('ready', 'ready')),
            ('two GPUs', TWO, (T4, OTHER_T4), {}, ('ready', 'ready')),
            ('a class of its own', GOLD, (OF_CLASS,), {}, ('ready', 'ready')),
            ('a whole GPU', PASSED, (WHOLE,), {}, ('ready', 'ready')),
            ('host not told', ONE, (FAR_T4,), {'host': None}, ('ready',) * 2),
            ('nothing', ONE, (), {}, (failed, 'no-allocation')),
            ('nothing of a class', GOLD, (), {}, (failed, 'no-allocation')),
            ('no whole GPU', PASSED, (), {}, (failed, 'no-allocation')),
            ('too few', TWO, (T4,), {}, (failed, 'too-few')),
            ('too many', ONE, (T4, OTHER_T4), {}, (attention, 'too-many')),
            ('another type', ONE, (A40,), {}, (attention, 'other-type')),
            ('fenced', ONE, (FENCED,), {}, (attention, 'fenced')),
            ('beside', ONE, (T4, OF_CLASS), {}, (attention, 'not-asked')),
            ('left over', ONE, (T4, FAR_T4), {}, (attention, 'other-host')),
            (
                'only elsewhere',
                *(ONE, (FAR_T4,), {}),
                (failed, 'no-allocation', 'other-host'),
            ),
            (
                'the trait of one of two',
                MIXED,
                (T4, OF_CLASS),
                {},
                ('ready',) * 2,
            ),
            ('asks for nothing', {}, (), {}, ('no GPU', 'no-gpu')),
            (
                'asks for nothing, has some',
                *({}, (T4,), {}),
                (attention, 'not-asked', 'no-gpu'),
            ),
        )

    def test_what_nova_does_with_it(self) -> None:
        off: Others = {'status': 'SHELVED_OFFLOADED', 'host': None}
        lost: Others = {'status': 'ERROR', 'host': None}
        self.compare(
            (
                'in error',
                *(ONE, (T4,), {'status': 'ERROR'}),
                ('failed', 'server-error'),
            ),
            ('never built', ONE, (), lost, ('failed', 'server-error')),
            (
                'never built, left over',
                *(ONE, (T4,), lost),
                ('failed', 'server-error', 'other-host'),
            ),
            (
                'in error, and nothing allocated',
                *(ONE, (), {'status': 'ERROR'}),
                ('failed', 'server-error', 'no-allocation'),
            ),
            (
                'being built',
                *(ONE, (), {'status': 'BUILD'}),
                ('changing', 'building'),
            ),
            ('shelved', ONE, (), off, ('stopped', 'stopped')),
            (
                'shelved, left over',
                *(ONE, (T4,), off),
                ('attention', 'other-host', 'stopped'),
            ),
            (
                'shelved, on its host yet',
                *(ONE, (T4,), {'status': 'SHELVED'}),
                ('stopped', 'stopped'),
            ),
            (
                'shut off, and nothing allocated',
                *(ONE, (), {'status': 'SHUTOFF'}),
                ('failed', 'no-allocation', 'stopped'),
            ),
            (
                'to be confirmed',
                *(ONE, (T4,), {'status': 'VERIFY_RESIZE'}),
                ('changing', 'to-confirm'),
            ),
            (
                'migrating to another host',
                *(
                    ONE,
                    (FAR_T4,),
                    {'status': 'MIGRATING', 'task': 'migrating'},
                ),
                ('changing', 'in-progress'),
            ),
            (
                'at work',
                *(ONE, (T4,), {'task': 'powering-off'}),
                ('changing', 'in-progress'),
            ),
            (
                'a status of a later Nova',
                *(ONE, (T4,), {'status': 'DREAMING'}),
                ('unknown', 'other-status'),
            ),
        )

    def test_what_an_ordinary_user_is_told(self) -> None:
        hidden: Others = {'has_extra_specs': False}
        self.compare(
            ('running', ONE, None, {}, ('unknown', 'not-permitted')),
            (
                'in error',
                *(ONE, None, {'status': 'ERROR', 'host': None}),
                ('failed', 'server-error', 'not-permitted'),
            ),
            ('no GPU', {}, None, {}, ('no GPU', 'no-gpu')),
            ('no extra specs', {}, None, hidden, ('unknown', 'flavor-hidden')),
        )

    def test_whole_gpus_that_placement_is_not_told_of(self) -> None:
        found = server_state.judge(server(PASSED), (), (T4,))
        (only,) = found.why
        self.assertEqual(reasons.Code.NOT_IN_PLACEMENT, only.code)
        self.assertEqual(reasons.State.UNKNOWN, found.state)

    def test_the_fault_and_the_cure_are_said(self) -> None:
        (found,) = server_state.judge(
            server(ONE, status='ERROR', fault='No vGPU left.'), hold(T4), GPUS
        ).why
        self.assertEqual(
            'Nova has put it into ERROR: No vGPU left.', found.text
        )
        self.assertIn('nova-compute on compute1', found.cure)
        self.assertIn('openstack server reboot --hard s1', found.cure)

    def test_every_reason_but_the_good_one_has_a_cure(self) -> None:
        statuses = ('ACTIVE', 'BUILD', 'ERROR', 'RESIZE', 'SHUTOFF', 'NEW')
        for status in (*statuses, 'VERIFY_RESIZE', 'SHELVED_OFFLOADED'):
            for specs in ({}, ONE, TWO, GOLD, PASSED):
                for held in ((), (T4,), (A40, FAR_T4), (FENCED, WHOLE)):
                    for each in server_state.judge(
                        server(specs, status=status), hold(*held), GPUS
                    ).why:
                        is_good = each.code is reasons.Code.READY
                        self.assertEqual(is_good, not each.cure, f'{each}')


class TestDetails(testtools.TestCase):
    def test_where_to_look_further(self) -> None:
        found = server_details.list_checks(hold(T4, OTHER_T4, FAR_T4))
        self.assertEqual(
            [
                ('compute1', 'nova-vgpu gpu show 0000:84:00.0'),
                ('compute1', 'nova-vgpu gpu show 0000:85:00.0'),
                ('compute2', 'nova-vgpu gpu show 0000:84:00.0'),
                ('compute1', 'nova-vgpu doctor'),
                ('compute2', 'nova-vgpu doctor'),
                ('guest', 'nova-vgpu guest facts'),
            ],
            [(each.where, each.command) for each in found],
        )

    def test_what_is_asked_for_in_words(self) -> None:
        for extra_specs, wanted, expected in (
            (TWO, {'VGPU': 2}, '2 vGPUs of T4-2Q, 2 GiB each, on one GPU'),
            (GOLD, {'CUSTOM_GOLD': 1}, '1 of CUSTOM_GOLD'),
            (PASSED, {'CUSTOM_GPU_A40': 1}, '1 whole GPU of model A40'),
            ({}, {}, 'no GPU'),
        ):
            its = server(extra_specs)
            found = server_details.Details(
                its,
                wanted,
                (),
                server_state.judge(its, (), ()),
                (),
                guest_states.GuestState(),
            )
            self.assertEqual(expected, found.words)
