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

import testtools

from nova_vgpu import values
from nova_vgpu.osc import doctor

NOTE, WARNING, ERROR = (
    values.Severity.NOTE,
    values.Severity.WARNING,
    values.Severity.ERROR,
)


class TestExitCode(testtools.TestCase):
    def test_warnings_fail_only_if_that_is_wanted(self) -> None:
        for severities, is_strict, expected in (
            ((), True, 0),
            ((NOTE,), True, 0),
            ((WARNING, NOTE), False, 0),
            ((WARNING, NOTE), True, 1),
            ((ERROR, WARNING), False, 2),
            ((ERROR, WARNING), True, 2),
        ):
            found = doctor.find_status(severities, is_strict)
            self.assertEqual(expected, found, f'{severities} {is_strict}')
