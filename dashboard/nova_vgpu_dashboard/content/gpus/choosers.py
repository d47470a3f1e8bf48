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

"""The filters above the list of GPUs whose values can be listed."""

from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import typing

from django.utils.translation import gettext_lazy as _

from nova_vgpu import values
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.gpus import rows as gpu_rows
from nova_vgpu_dashboard.content.gpus import tables


@dataclasses.dataclass(frozen=True, slots=True)
class Chooser:
    """A filter with the values that it can have, and their texts."""

    name: str
    label: typing.Any
    choices: Sequence[tuple[str, typing.Any]]
    chosen: str


def list_choosers(
    rows: Sequence[gpu_rows.Row], place: listing.Place
) -> list[Chooser]:
    models = _as_pairs(row.gpu.facts.model for row in rows)
    types = _as_pairs(
        name
        for row in rows
        if row.role is values.Role.VGPU
        for name in row.gpu.facts.types or (None,)
    )
    roles = [(role.value, text) for role, text in tables.ROLES.items()]
    states = [
        (state.value, text) for state, (text, _colour) in tables.STATES.items()
    ]
    healths = [
        (health.value, text)
        for health, (text, _colour) in tables.HEALTHS.items()
    ]
    return [
        Chooser(name, label, choices, place.filter_of(name))
        for name, label, choices in (
            ('model', _('Model'), models),
            ('role', _('Role'), roles),
            ('type', _('vGPU type'), types),
            ('state', _('State'), states),
            ('health', _('Health'), healths),
        )
    ]


def _as_pairs(
    found: Iterable[str | None],
) -> list[tuple[str, typing.Any]]:
    listed = set(found)
    pairs: list[tuple[str, typing.Any]] = [
        (value, value) for value in listing.list_choices(listed)
    ]
    return pairs + [(listing.UNKNOWN, _('unknown'))] * (None in listed)
