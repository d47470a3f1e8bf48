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
"""The page of what projects have used, and the file with the same."""

import csv
import datetime
import io

from django import http
from django import test

from nova_vgpu import exception
from nova_vgpu_dashboard.content.vgpu_types import periods
from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds

STUDIO = '5' * 32
GONE = '6' * 32
NOW = datetime.datetime(2026, 3, 10, 12, tzinfo=datetime.UTC)
DESKTOP = clouds.flavor(
    'desktop', resources__VGPU='1', trait__CUSTOM_VGPU_TYPE_A40_8Q='required'
)
ANY = clouds.flavor('any', resources__VGPU='1')
FORMULA = '=HYPERLINK("http://x","y")'


class TestUsage(base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.gpus = (
            clouds.gpu('compute1'),
            clouds.gpu('compute2', traits=clouds.T4),
        )
        self.cloud.flavors = (DESKTOP, ANY, clouds.flavor('plain'))
        self.services = self.cloud.services
        self.services.names[STUDIO] = 'studio'
        self.services.records = [
            clouds.record('a', 'desktop', 10.5),
            clouds.record('b', 'desktop', 2.0, ended='2026-01-01T00:00:00'),
            clouds.record('c', 'any', 1.25, STUDIO),
            clouds.record('d', 'plain', 99.0, STUDIO),
        ]

    def list_rows(self, query: str) -> list[str | None]:
        return [
            row['data-object-id']
            for row in self.read(base.USAGE, query).find('tr')
            if 'data-object-id' in row
        ]

    def download(self, query: str = '') -> list[dict[str, str]]:
        response = self.open(base.USAGE_FILE, query)
        self.assertEqual('text/csv; charset=utf-8', response['Content-Type'])
        text = response.content.decode()
        return list(csv.DictReader(io.StringIO(text)))

    def test_every_project_and_type_has_a_row(self) -> None:
        page = self.read(base.USAGE)
        self.assertIn('research A40-8Q 1 2 12.50 100.00', page.text)
        self.assertIn('studio Several 1 1 1.25 Unknown', page.text)
        self.assertIn('Total: 13.75 vGPU hours, projects: 2.', page.text)
        self.assertIn(f'/identity/{clouds.PROJECT}/detail/', page.links())

    def test_the_types_page_leads_to_it(self) -> None:
        self.assertIn(
            '/admin/vgpu_types/usage/', self.read(base.TYPES).links()
        )

    def test_what_is_not_counted_is_said(self) -> None:
        text = self.read(base.USAGE).text
        self.assertIn('its hours before that are lost', text)
        self.assertNotIn('Servers that are not in the list', text)
        self.services.records.append(clouds.record('e', 'retired', 7.0))
        self.assertIn(
            'Servers that are not in the list: 1. Their flavors do not exist '
            'any more, so it is unknown whether they have vGPUs. Their hours: '
            '7.00. Flavors: retired',
            self.read(base.USAGE).text,
        )

    def test_the_chart_tells_the_same_in_words(self) -> None:
        page = self.read(base.USAGE)
        (svg,) = page.find('svg', role='img')
        named = (svg['aria-labelledby'] or '').split()
        self.assertEqual(
            [[{'id': named[0]}], [{'id': named[1]}]],
            [page.find('title', id=named[0]), page.find('desc', id=named[1])],
        )
        self.assertIn('research: 12.50; studio: 1.25', page.text)
        widths = [
            bar['width']
            for bar in page.find('rect', **{'class': 'nova-vgpu-used'})
        ]
        self.assertEqual(['100.0%', '10.0%'], widths)

    def test_projects_of_the_same_name_are_apart(self) -> None:
        self.services.names[STUDIO] = 'research'
        page = self.read(base.USAGE)
        self.assertIn('research: 12.50; research: 1.25', page.text)

    def test_many_projects(self) -> None:
        self.services.records = [
            clouds.record(f's{number}', 'desktop', 1.0, f'{number:032}')
            for number in range(1000)
        ]
        page = self.read(base.USAGE)
        self.assertIn('990 other projects: 990.00', page.text)
        self.assertIn('1 to 20 of 1000', page.text)
        self.assertEqual(1000, len(self.download()))

    def test_a_project_that_was_deleted_has_no_link(self) -> None:
        self.services.records = [clouds.record('a', 'desktop', 1.0, GONE)]
        page = self.read(base.USAGE)
        self.assertIn(f'{GONE} A40-8Q', page.text)
        self.assertNotIn(f'/identity/{GONE}/detail/', page.links())

    def test_orders_and_filters(self) -> None:
        research, studio = (
            f'{clouds.PROJECT}/A40-8Q/8192',
            f'{STUDIO}/several/None',
        )
        for query, rows in (
            ('', [research, studio]),
            ('sort=hours', [studio, research]),
            ('sort=-hours', [research, studio]),
            ('sort=-project', [studio, research]),
            ('project=STUD', [studio]),
            (f'project={clouds.PROJECT}', [research]),
            ('type=A40-8Q', [research]),
            ('type=A40-8Q&project=studio', []),
        ):
            self.assertEqual(rows, self.list_rows(query), query)

    def test_the_period_stays_in_all_links(self) -> None:
        page = self.read(base.USAGE, 'start=2026-01-01&end=2026-01-31')
        kept = 'start=2026-01-01&end=2026-01-31'
        self.assertIn(f'?{kept}&sort=hours', page.links())
        self.assertIn(
            f'/admin/vgpu_types/usage.csv?{kept}&sort=project', page.links()
        )
        self.assertIn(f'/admin/vgpu_types/usage/?{kept}', page.links())
        self.assertEqual(
            1, len(page.find('input', name='start', type='hidden'))
        )

    def test_the_filter_stays_in_links_to_other_periods(self) -> None:
        page = self.read(base.USAGE, 'project=studio&sort=-hours')
        self.assertIn('?period=week&project=studio&sort=-hours', page.links())

    def test_days_are_those_of_utc_and_the_last_one_is_included(self) -> None:
        page = self.read(base.USAGE, 'start=2026-01-01&end=2026-01-31')
        self.assertEqual(
            ('2026-01-01T00:00:00', '2026-02-01T00:00:00'),
            (
                self.services.asked[0]['start'],
                self.services.asked[0]['end'],
            ),
        )
        self.assertIn(
            'Hours from 2026-01-01 00:00 to 2026-02-01 00:00 UTC.', page.text
        )

    def test_days_that_are_not_valid(self) -> None:
        for query, shown in (
            ('start=2026-13-01', '"2026-13-01" is not a date'),
            ('start=2026-01-01&end=tomorrow', '"tomorrow" is not a date'),
            ('start=%1b[2J', r'"\x1b[2J" is not a date'),
            ('start=2026-01-01&end=9999-12-31', 'is not a date'),
            ('end=2026-01-01', 'Give a date for "First day", too.'),
            (
                'start=2026-02-01&end=2026-01-01',
                'Give an earlier "First day" or a later "Last day".',
            ),
            ('start=9000-01-01', 'The period starts in the future'),
        ):
            page = self.read(base.USAGE, query)
            self.assertIn('The usage is unknown.', page.text, query)
            self.assertIn(shown, page.text, query)
            self.assertNotIn('--start', page.text)
            self.assertEqual(1, len(page.find('input', id='period-start')))
        self.assertEqual([], self.services.asked)

    def test_no_server_with_a_vgpu(self) -> None:
        self.services.records = []
        page = self.read(base.USAGE)
        self.assertIn('No server had a vGPU in this period.', page.text)
        self.assertEqual([], page.find('svg', role='img'))
        self.assertEqual([], self.download())

    def test_a_filter_that_selects_nothing(self) -> None:
        page = self.read(base.USAGE, 'project=nothing')
        self.assertIn('Total: 0.00 vGPU hours, projects: 0.', page.text)
        self.assertEqual([], page.find('svg', role='img'))

    def test_nova_does_not_answer(self) -> None:
        self.services.failure = exception.CloudError('It does not answer.')
        page = self.read(base.USAGE)
        self.assertIn('The usage is unknown. It does not answer.', page.text)
        response = self.open(base.USAGE_FILE, 'period=day')
        self.assertEqual(
            (302, '/admin/vgpu_types/usage/?period=day'),
            (response.status_code, response['Location']),
        )

    def test_the_file(self) -> None:
        rows = self.download('start=2026-01-01&end=2026-01-31')
        self.assertEqual(
            {
                'Project': 'research',
                'Project ID': clouds.PROJECT,
                'Type': 'A40-8Q',
                'MiB': '8192',
                'vGPUs': '1',
                'Servers': '2',
                'vGPU Hours': '12.5',
                'GiB Hours': '100.0',
                'Start': '2026-01-01 00:00',
                'End': '2026-02-01 00:00',
            },
            rows[0],
        )
        self.assertEqual(('several', ''), (rows[1]['Type'], rows[1]['MiB']))

    def test_the_file_has_the_filters_and_the_order_of_the_page(self) -> None:
        found = self.download('sort=hours')
        self.assertEqual(['studio', 'research'], [r['Project'] for r in found])
        found = self.download('project=studio')
        self.assertEqual(['studio'], [row['Project'] for row in found])

    def test_the_name_of_the_file(self) -> None:
        response: http.HttpResponse = self.open(
            base.USAGE_FILE, 'start=2026-01-01&end=2026-01-31'
        )
        self.assertEqual(
            'attachment; filename="vgpu-usage-20260101-20260201.csv"',
            response['Content-Disposition'],
        )

    def test_a_spreadsheet_runs_no_formula_of_a_name(self) -> None:
        for name in (FORMULA, '+1', '-1', '@SUM(A1)'):
            self.services.names[clouds.PROJECT] = name
            cells = [row['Project'] for row in self.download()]
            self.assertIn(f"'{name}", cells)
            self.assertNotIn(name, cells)

    def test_a_name_with_quotes_and_lines_stays_in_its_cell(self) -> None:
        self.services.names[clouds.PROJECT] = 'a","b\n"c'
        found = self.download('project=a%22')
        self.assertEqual([r'a","b\n"c'], [row['Project'] for row in found])


class TestPeriods(test.SimpleTestCase):
    def test_periods_that_end_now(self) -> None:
        for text, days in (
            ('day', 1),
            ('week', 7),
            ('month', 30),
            ('', 30),
            ('century', 30),
        ):
            asked = periods.parse({'period': text})
            found = periods.find_period(asked, NOW)
            self.assertEqual(days, (NOW - found.start).days, text)
            self.assertGreater(found.end, NOW)

    def test_days_come_before_the_name_of_a_period(self) -> None:
        asked = periods.parse({'period': 'day', 'start': ' 2026-01-01 '})
        found = periods.find_period(asked, NOW)
        self.assertEqual(
            datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), found.start
        )
        self.assertGreater(found.end, NOW, 'until now')
