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

import unittest

from nova_vgpu import values
from nova_vgpu_dashboard.content.gpus import problems
from nova_vgpu_dashboard.content.gpus import rows
from nova_vgpu_dashboard.tests import clouds

GPU = clouds.gpu('compute1')


def finding(
    severity: values.Severity, subject: str = 'x', code: str = 'code'
) -> values.Finding:
    return values.Finding(severity, code, subject, 'text')


class TestHealth(unittest.TestCase):
    def test_the_worst_finding_counts(self) -> None:
        note, warning, error = (
            finding(severity)
            for severity in (
                values.Severity.NOTE,
                values.Severity.WARNING,
                values.Severity.ERROR,
            )
        )
        for found, health in (
            (None, rows.Health.UNKNOWN),
            ((), rows.Health.GOOD),
            ((note,), rows.Health.NOTE),
            ((note, warning), rows.Health.WARNING),
            ((warning, error, note), rows.Health.ERROR),
        ):
            self.assertIs(health, rows.Row(GPU, found).health)


class TestProblems(unittest.TestCase):
    def test_those_of_a_gpu_are_about_it_or_its_host(self) -> None:
        own = finding(values.Severity.WARNING, GPU.name)
        of_host = finding(values.Severity.WARNING, GPU.host)
        other = finding(values.Severity.WARNING, 'compute10')
        found = problems.Problems((own, of_host, other))
        self.assertEqual((own, of_host), found.list_of(GPU))

    def test_there_is_room_for_ten_kinds(self) -> None:
        found = problems.Problems(
            tuple(
                finding(values.Severity.WARNING, code=f'code-{number}')
                for number in range(11)
            )
        )
        self.assertEqual(10, len(found.kinds))
        self.assertEqual(1, found.more)
