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

"""The rows of the list of GPUs, their filters and orders."""

from collections.abc import Iterable
import dataclasses
import enum

from nova_vgpu import values
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import whole_gpu_fleet
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.gpus import problems as gpu_problems


class Health(enum.Enum):
    """The worst of the findings about a GPU or its host."""

    GOOD = 'good'
    NOTE = 'note'
    WARNING = 'warning'
    ERROR = 'error'
    UNKNOWN = 'unknown'


_OF_SEVERITY = {
    values.Severity.FATAL: Health.ERROR,
    values.Severity.ERROR: Health.ERROR,
    values.Severity.WARNING: Health.WARNING,
    values.Severity.NOTE: Health.NOTE,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A GPU; ``findings`` are None if they are unknown."""

    gpu: fleet.GPU
    findings: tuple[values.Finding, ...] | None = ()

    @property
    def role(self) -> values.Role:
        return whole_gpu_fleet.find_role(self.gpu)

    @property
    def health(self) -> Health:
        if self.findings is None:
            return Health.UNKNOWN
        ranks = list(values.Severity)
        if not self.findings:
            return Health.GOOD
        return _OF_SEVERITY[
            min((f.severity for f in self.findings), key=ranks.index)
        ]


def make_rows(
    gpus: Iterable[fleet.GPU], problems: gpu_problems.Problems
) -> tuple[Row, ...]:
    return tuple(Row(gpu, problems.list_of(gpu)) for gpu in gpus)


def _by_host(row: Row, text: str) -> bool:
    return listing.is_found(row.gpu.host, text)


def _by_model(row: Row, text: str) -> bool:
    return (row.gpu.facts.model or listing.UNKNOWN) == text


def _by_role(row: Row, text: str) -> bool:
    return row.role.value == text


def _by_type(row: Row, text: str) -> bool:
    """One of its types, or all of them; a whole GPU has none."""
    facts = row.gpu.facts
    if row.role is values.Role.PASSTHROUGH:
        return False
    return text in (*facts.types, facts.name or listing.UNKNOWN)


def _by_state(row: Row, text: str) -> bool:
    return row.gpu.state.value == text


def _by_health(row: Row, text: str) -> bool:
    return row.health.value == text


def _by_free(row: Row, text: str) -> bool:
    """At least so many; all GPUs if the text is not a number."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 10
    return row.gpu.free >= int(text) if is_number else True


def _place(row: Row) -> tuple[object, ...]:
    return listing.natural(row.gpu.host), row.gpu.address


def _share(row: Row) -> tuple[float, int]:
    gpu = row.gpu
    return gpu.used / gpu.total if gpu.total else 0.0, gpu.total


def _severity(row: Row) -> int:
    return list(Health).index(row.health)


RULES: listing.Rules[Row] = listing.Rules(
    filters={
        'host': _by_host,
        'model': _by_model,
        'role': _by_role,
        'type': _by_type,
        'state': _by_state,
        'health': _by_health,
        'free': _by_free,
    },
    orders={
        'host': _place,
        'address': lambda row: row.gpu.address,
        'model': lambda row: listing.natural(row.gpu.facts.model or ''),
        'role': lambda row: row.role.value,
        'types': lambda row: listing.natural(', '.join(row.gpu.facts.types)),
        'usage': _share,
        'free': lambda row: row.gpu.free,
        'state': lambda row: row.gpu.state.value,
        'health': _severity,
    },
    default='host',
)
