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

import argparse
import datetime

import testtools

from nova_vgpu.osc import usage

DAY = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)


class TestMoments(testtools.TestCase):
    def test_days_and_times(self) -> None:
        for text, hours in (
            ('2026-01-31', 0),
            ('2026-01-31T12:00:00', 12),
            ('2026-01-31 12:00', 12),
            ('2026-01-31T12:00:00Z', 12),
            ('2026-01-31T12:00:00+02:00', 10),
        ):
            expected = DAY + datetime.timedelta(hours=hours)
            self.assertEqual(expected, usage.parse_moment(text), text)

    def test_what_is_not_a_date(self) -> None:
        for text in (
            *('', 'x', '2026-02-30', '31.1.2026', 'now', '2026-01-31T25:00'),
            # No such time in UTC.
            '0001-01-01T00:00:00+05:00',
            '9999-12-31T23:00:00-05:00',
        ):
            self.assertRaises(
                argparse.ArgumentTypeError, usage.parse_moment, text
            )

    def test_control_characters_are_escaped(self) -> None:
        error = self.assertRaises(
            argparse.ArgumentTypeError, usage.parse_moment, '\x1b[2J'
        )
        self.assertEqual(
            r'\x1b[2J is not a date such as 2026-01-31', str(error)
        )
