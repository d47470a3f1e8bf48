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

"""Reading Placement's summaries, the broken ones too."""

import typing

from hypothesis import given
from hypothesis import strategies as st
import testtools

from nova_vgpu.scheduler import inventory
from nova_vgpu.tests.unit.scheduler import answered

#: What could be in an answer in place of anything.
JSON: st.SearchStrategy[typing.Any] = st.sampled_from(
    [
        *(None, True, -1, 0, 3, 10**30, 1.5, float('nan'), '', 'VGPU'),
        *([], [None], ['VGPU'], [answered.A40_8Q], {}, {'VGPU': None}),
    ]
)
#: Something that looks like the summary of a GPU, with anything in it.
BROKEN = st.fixed_dictionaries(
    {},
    optional={
        'resources': JSON
        | st.dictionaries(
            st.sampled_from(['VGPU', 'VCPU']),
            JSON
            | st.fixed_dictionaries(
                {}, optional={'capacity': JSON, 'used': JSON}
            ),
        ),
        'traits': JSON | st.lists(st.just(answered.A40_8Q) | JSON),
        'root_provider_uuid': JSON,
    },
)


class TestReading(testtools.TestCase):
    def test_gpus_have_a_host_a_type_and_figures(self) -> None:
        gpu = answered.gpu(used=1)
        _, summaries, _ = answered.answer(gpu1=gpu)
        self.assertEqual(
            inventory.KnownGPUs({'gpu1': gpu}), inventory.read(summaries)
        )

    def test_a_provider_without_a_type_has_vgpus(self) -> None:
        """As those of Nova's own driver are."""
        gpu = answered.gpu(used=1, trait='')
        found = inventory.read({'gpu1': answered.summary(gpu)})
        self.assertEqual({'gpu1': gpu}, found.gpus)

    def test_a_class_of_its_own_is_known_by_the_trait_of_the_type(
        self,
    ) -> None:
        summary = answered.summary(answered.gpu(used=1))
        summary['resources'] = {'CUSTOM_BIG': {'capacity': 2, 'used': 1}}
        found = inventory.read({'gpu1': summary}).gpus['gpu1']
        self.assertEqual((2, 1), (found.capacity, found.used))
        self.assertEqual({'CUSTOM_BIG'}, found.classes)

    def test_what_is_not_a_gpu_is_left_out(self) -> None:
        cyborgs = answered.summary(answered.gpu(0))
        cyborgs['traits'].append('OWNER_CYBORG')
        nic = {
            'resources': {'CUSTOM_NIC': {'capacity': 1, 'used': 0}},
            'traits': [],
            'root_provider_uuid': 'host1',
        }
        found = inventory.read(
            {'host1': answered.root('host1'), 'acc': cyborgs, 'nic': nic}
        )
        self.assertEqual(inventory.KnownGPUs({}), found)

    def test_what_is_broken_leaves_the_others_readable(self) -> None:
        good = answered.gpu(used=1)
        changes: tuple[dict[str, object], ...] = (
            {'resources': None},
            {'resources': {'VGPU': None}},
            {'resources': {'VGPU': {}}},
            {'resources': {'VGPU': {'capacity': None, 'used': 0}}},
            {'resources': {'VGPU': {'capacity': -4, 'used': 0}}},
            {'resources': {'VGPU': {'capacity': 4, 'used': -1}}},
            {'resources': {'VGPU': {'capacity': '4', 'used': 0}}},
            {'resources': {'VGPU': {'capacity': 4.5, 'used': 0}}},
            {'traits': [None]},
            {'traits': 7},
            {'root_provider_uuid': None},
        )
        for change in changes:
            bad = {**answered.summary(good), **change}
            found = inventory.read(
                {'bad': bad, 'good': answered.summary(good)}
            )
            self.assertEqual(
                inventory.KnownGPUs({'good': good}, ('bad',)),
                found,
                str(change),
            )

    @given(st.dictionaries(st.text('abc'), BROKEN | JSON, max_size=3))
    def test_nothing_in_it_raises(self, summaries: dict[str, object]) -> None:
        found = inventory.read(summaries)
        self.assertLessEqual({*found.gpus, *found.unreadable}, set(summaries))
        for gpu in found.gpus.values():
            self.assertGreaterEqual(gpu.free, 0)


class TestCandidates(testtools.TestCase):
    def test_only_vgpus_of_gpus_are_counted(self) -> None:
        gpus = {'gpu1': answered.gpu(0), 'gpu2': answered.gpu(0)}
        two = answered.candidate('host1', 'gpu1', 'nic', number=2)
        self.assertEqual({'gpu1': 2}, inventory.find_taken(two, gpus))
        plain = answered.candidate('host1')
        self.assertEqual({}, inventory.find_taken(plain, gpus))

    def test_a_plain_server_takes_nothing_but_of_hosts(self) -> None:
        candidates, summaries, _ = answered.answer(gpu1=answered.gpu(0))
        self.assertTrue(inventory.has_nested(candidates, summaries))
        plain = [answered.candidate('host1')]
        self.assertFalse(inventory.has_nested(plain, summaries))
        self.assertTrue(inventory.has_nested(plain, {}))
