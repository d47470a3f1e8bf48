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
"""The page of what projects have used, and the same as a file."""

import dataclasses
import datetime
import functools
import typing

from django import http
from django import shortcuts
from django import urls
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views import generic
from horizon import messages
from horizon import tables
from horizon.utils import csvbase
from horizon.utils import functions

from nova_vgpu import exception
from nova_vgpu.cloud.usage import usage
from nova_vgpu.cloud.usage import usage_reader
from nova_vgpu_dashboard import chart
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.vgpu_types import periods
from nova_vgpu_dashboard.content.vgpu_types import usage_rows
from nova_vgpu_dashboard.content.vgpu_types import usage_tables

USAGE = 'horizon:admin:vgpu_types:usage'


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The period until the present, and what was used in it."""

    start: datetime.datetime
    end: datetime.datetime
    report: usage_reader.Report

    @property
    def start_text(self) -> str:
        return f'{self.start:%Y-%m-%d %H:%M}'

    @property
    def end_text(self) -> str:
        return f'{self.end:%Y-%m-%d %H:%M}'


def read(request: http.HttpRequest) -> Found:
    """What the query string asks for.

    :raises NovaVGPUError: if its period is not valid, or a service does not
        answer.
    """
    now = datetime.datetime.now(datetime.UTC)
    period = periods.find_period(periods.parse(request.GET), now)
    try:
        report = usage_reader.read(
            connection.connect(request), period.start, period.end, now
        )
    except exception.UsageError as error:
        raise exception.UsageError(periods.name_fields(str(error))) from error
    return Found(period.start, min(period.end, now), report)


class UsageView(tables.DataTableView):
    table_class = usage_tables.UsageTable
    template_name = 'nova_vgpu_dashboard/vgpu_types/usage.html'
    page_title = _('vGPU Usage of Projects')

    failure: str | None = None

    @functools.cached_property
    def found(self) -> Found | None:
        try:
            return read(self.request)
        except exception.NovaVGPUError as error:
            self.failure = str(error)
            return None

    @functools.cached_property
    def place(self) -> listing.Place:
        return usage_rows.RULES.parse(self.request.GET)

    @functools.cached_property
    def page(self) -> listing.Page[usage.Usage]:
        return listing.turn_to(
            self.place,
            self.found.report.usages if self.found else (),
            usage_rows.RULES,
            # From a cookie, which can have any number.
            max(functions.get_page_size(self.request), 1),
        )

    def get_data(self) -> tuple[usage.Usage, ...]:
        return self.page.entries

    def get_context_data(self, **kwargs: typing.Any) -> dict[str, typing.Any]:
        context: dict[str, typing.Any] = super().get_context_data(**kwargs)
        usages = self.found.report.usages if self.found else ()
        selected = listing.put_in_order(self.place, usages, usage_rows.RULES)
        sums = usage_rows.add_up(selected)
        return context | {
            'failure': self.failure,
            'found': self.found,
            **self.list_filters(usages),
            'chart': chart.draw(sums, name_others),
            'projects': len(sums),
            'total': f'{sum(hours for _name, hours in sums):.2f}',
        }

    def list_filters(
        self, usages: typing.Sequence[usage.Usage]
    ) -> dict[str, typing.Any]:
        """What the two forms above the list have."""
        kept, selected = periods.split(self.place.filters)
        return {
            'asked': periods.parse(self.request.GET),
            'periods': [
                (name, text, periods.link(self.place, name))
                for name, (_time, text) in periods.LAST.items()
            ],
            'first_day': periods.FIRST_DAY,
            'last_day': periods.LAST_DAY,
            'page': self.page,
            'place': self.page.place,
            'kept': kept,
            'selected': selected,
            'searches': [
                ('project', _('Project'), self.place.filter_of('project'))
            ],
            'choosers': usage_rows.list_choosers(usages, self.place),
        }


def name_others(number: int) -> str:
    text: str = ngettext(
        '%(number)d other project', '%(number)d other projects', number
    )
    return text % {'number': number}


class UsageFile(csvbase.BaseCsvResponse):
    """Cells that a spreadsheet would run as formulas are quoted by Horizon."""

    columns = usage_rows.COLUMNS

    def get_row_data(self) -> typing.Iterable[typing.Any]:
        cells: typing.Iterable[typing.Any] = self.context['cells']
        return cells


class UsageFileView(generic.View):
    """All rows that the filters select, as CSV."""

    def get(
        self, request: http.HttpRequest, *_args: typing.Any
    ) -> http.HttpResponseBase:
        try:
            found = read(request)
        except exception.NovaVGPUError as error:
            messages.error(request, str(error))
            query = request.GET.urlencode()
            return shortcuts.redirect(f'{urls.reverse(USAGE)}?{query}')
        rows = listing.put_in_order(
            usage_rows.RULES.parse(request.GET),
            found.report.usages,
            usage_rows.RULES,
        )
        response: http.HttpResponse = UsageFile(
            request,
            None,
            {
                'cells': usage_rows.write_cells(
                    rows, found.start_text, found.end_text
                )
            },
            'text/csv; charset=utf-8',
            filename=f'vgpu-usage-{found.start:%Y%m%d}-{found.end:%Y%m%d}.csv',
        )
        return response
