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

"""When the last apply was."""

import testtools

from nova_vgpu.lifecycle import journal


class TestLastApply(testtools.TestCase):
    def find(self, *lines: str) -> float | None:
        log = journal.parse(''.join(f'{line}\n' for line in lines), 'x')
        return journal.find_last_apply(log)

    def test_it_is_the_last_that_is_written(self) -> None:
        first, last = (
            f'{{"event": "apply", "time": "1970-01-01T00:0{n}:00+00:00"}}'
            for n in (1, 2)
        )
        end = '{"event": "end"}'
        self.assertEqual(60.0, self.find(first))
        self.assertEqual(120.0, self.find(first, last, end))

    def test_there_need_be_none(self) -> None:
        for line in ('', '{"event": "end"}', '{"event": "apply"}'):
            self.assertIsNone(self.find(line))
        for time in ('3', '"noon"', 'null'):
            self.assertIsNone(
                self.find(f'{{"event": "apply", "time": {time}}}')
            )
