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

"""What the agent says, and how soon it tries again."""

import testtools

from nova_vgpu import values
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import drift

GPU = '0000:41:00.0'


def report(
    *gpu_steps: values.GPUSteps, problems: tuple[values.Problem, ...] = ()
) -> values.DriftReport:
    return values.DriftReport(
        values.Plan(problems=problems),
        values.Host(faults=(values.ReadFault('pci_x', 'vendor', 'mess'),)),
        values.Usage(),
        gpu_steps,
    )


class TestFindings(testtools.TestCase):
    def test_all_that_is_not_as_it_should_be(self) -> None:
        problem = values.Problem(
            values.Severity.ERROR, 'vfs-off', GPU, 'VFs\nare off.', 'Enable.'
        )
        planned = values.GPUSteps(
            GPU,
            (values.SetVFs(GPU, 0, 4), values.SetVFs(GPU, 0, 4)),
            (values.Refusal(GPU, 'A server has it.', 'Move it.'),),
        )
        self.assertEqual(
            (
                'error: VFs are off. Enable.',
                'warning: pci_x: vendor: mess',
                f'drift: GPU {GPU}: enable the 4 VFs of GPU {GPU}',
                'refused: A server has it. Move it.',
            ),
            drift.list_findings(report(planned, problems=(problem,))),
        )
        self.assertEqual(
            '0 of 0 GPUs serve, 2 steps of drift, 1 things in use, 1 problems',
            drift.summarise(report(planned, problems=(problem,))),
        )

    def test_only_what_changed_is_news(self) -> None:
        for before, after, expected in (
            ((), (), ()),
            ((), ('a', 'b'), ('a', 'b')),
            (('a', 'b'), ('b', 'a'), ()),
            (('a', 'b'), ('b', 'c'), ('resolved: a', 'c')),
            (('a',), (), ('resolved: a',)),
        ):
            self.assertEqual(expected, drift.list_news(before, after))


class TestPatience(testtools.TestCase):
    def test_pauses_double_up_to_an_hour(self) -> None:
        patience = agent.Backoff()
        pauses = []
        for _ in range(30):
            patience = patience.after(True, 1000.0, 30.0)
            pauses.append(patience.not_before - 1000.0)
        self.assertEqual([30, 60, 120, 240, 480, 960, 1920, 3600], pauses[:8])
        self.assertEqual({3600.0}, set(pauses[8:]))

    def test_success_ends_them(self) -> None:
        patience = agent.Backoff(7, 99999.0).after(False, 1000.0, 30.0)
        self.assertEqual(agent.Backoff(), patience)

    def test_they_are_never_shorter_than_the_interval(self) -> None:
        patience = agent.Backoff(3).after(True, 0.0, 7200.0)
        self.assertEqual(7200.0, patience.not_before)
