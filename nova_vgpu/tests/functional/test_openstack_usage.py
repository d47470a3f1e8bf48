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

"""``openstack vgpu usage``, in a real cloud."""

import datetime

from nova_vgpu.cloud import reader
from nova_vgpu.cloud.usage import usage_reader
from nova_vgpu.tests.cloud import base
from nova_vgpu.tests.cloud import scene

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
PERIOD = ('--start', '2024-02-01', '--end', '2024-03-01')
RETIRED = (
    'Servers that are not in the list: 1. Their flavors do not exist any more '
    '(retired), so it is unknown whether they have vGPUs. Hours: 240.00.\n'
)


def read_until_now(cloud: reader.Cloud) -> usage_reader.Report:
    return usage_reader.read(cloud, scene.LAUNCHED, NOW + DAY, NOW)


def read_past(cloud: reader.Cloud) -> usage_reader.Report:
    return usage_reader.read(cloud, scene.LAUNCHED, NOW - DAY, NOW)


#: Requests to Placement and Nova.
READERS: dict[base.Read, tuple[int, int]] = {
    # What "gpu list" takes; the flavors and the records.
    read_until_now: (5, 2),
    # And the records of servers that there are now.
    read_past: (5, 3),
}


class UsageTest(base.CloudTest):
    def test_the_page_has_real_output(self) -> None:
        self.compare('openstack-usage.txt', 'usage', *PERIOD, notes=RETIRED)
        self.compare(
            'openstack-usage-json.txt',
            *('usage', *PERIOD, '--project', 'studio', '--long'),
            *('-f', 'json'),
        )

    def test_an_ordinary_user_is_told_what_role_is_required(self) -> None:
        self.refuse_ordinary_user('usage')

    def test_periods_that_are_refused(self) -> None:
        for words, status, expected in (
            (('--start', '1\x1b[2J'), 2, r'1\x1b[2J is not a date such as'),
            (
                ('--start', '2999-01-01', '--end', '2999-01-02'),
                1,
                'in the future',
            ),
            (
                ('--start', '2024-03-01', '--end', '2024-02-01T12'),
                1,
                'The period ends (2024-02-01 12:00) before it starts '
                '(2024-03-01 00:00).',
            ),
        ):
            code, stdout, stderr = self.run_command('usage', *words)
            self.assertEqual((status, ''), (code, stdout), stderr)
            self.assertIn(expected, ' '.join(stderr.split()))

    def test_a_period_up_to_now(self) -> None:
        weeks = datetime.timedelta(weeks=4)
        (found,) = usage_reader.read(
            self.reader, NOW - weeks, NOW + DAY, NOW, 'studio'
        ).usages
        # One server; those that were deleted were so earlier. The period ends
        # when Nova answers, a while later.
        self.assertEqual(
            ('several', 1, 1), (found.kind.name, found.vgpus, found.servers)
        )
        self.assertGreaterEqual(found.hours, 4 * 7 * 24)
        self.assertLess(found.hours, 4 * 7 * 24 + 1)

    def test_requests_do_not_grow_with_servers_or_vgpus(self) -> None:
        for read, requests in READERS.items():
            self.compare_requests(read, requests)

    def test_what_fails_in_the_middle_is_named(self) -> None:
        for read, requests in READERS.items():
            self.fail_in_the_middle(read, requests)

    def test_a_keystone_that_fails_is_named(self) -> None:
        """It gave out a token, and does not answer any more."""
        code, stdout, stderr = self.run_command(
            *('usage',), OS_IDENTITY_ENDPOINT_OVERRIDE='http://127.0.0.1:1'
        )
        self.assertEqual((1, ''), (code, stdout))
        self.assertIn('Keystone did not list projects: ', stderr)
