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

"""The list of virtual functions: its rows, filters and order.

A GPU with SR-IOV has a row of its own before those of its functions: without
virtual functions there is nothing else to show of it.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import enum
import typing

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu_dashboard import host_commands
from nova_vgpu_dashboard import listing
from nova_vgpu_dashboard.content.gpus import choosers


class Use(enum.Enum):
    """What a function is used for; a GPU has SR-IOV on, off or in part."""

    SERVER = 'server'
    VGPU = 'vgpu'
    FREE = 'free'
    FULL = 'full'
    NO_TYPES = 'no-types'
    ON = 'sriov-on'
    PART = 'sriov-part'
    OFF = 'sriov-off'


#: What they are called, and the class of Bootstrap for their colour.
USES = {
    Use.SERVER: (_('In use'), 'primary'),
    Use.VGPU: (_('vGPU, not in use'), 'info'),
    Use.FREE: (pgettext_lazy('State of a function', 'Free'), 'success'),
    Use.FULL: (pgettext_lazy('State of a function', 'No room'), 'default'),
    Use.NO_TYPES: (_('No types'), 'warning'),
    Use.ON: (_('SR-IOV enabled'), 'default'),
    Use.PART: (_('SR-IOV enabled in part'), 'warning'),
    Use.OFF: (_('SR-IOV disabled'), 'warning'),
}
_STATES = {host_commands.FREE: Use.FREE, host_commands.FULL: Use.FULL}


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A function, or a GPU with SR-IOV; ``uuid`` is that of its provider."""

    host: str
    gpu: str
    uuid: str | None
    use: Use
    vfs: tuple[int, int]
    command: host_commands.Command | None
    available: tuple[str, ...] = ()
    function: host_agents.Function | None = None

    @property
    def address(self) -> str:
        return self.function.address if self.function else self.gpu

    @property
    def type(self) -> str:
        return self.function.type if self.function else ''

    @property
    def vgpu(self) -> str:
        return self.function.vgpu if self.function else ''

    @property
    def server(self) -> str:
        return self.function.server if self.function else ''

    @property
    def label(self) -> tuple[typing.Any, str]:
        """What its state is called, and the class for the colour."""
        return USES[self.use]

    @property
    def id(self) -> str:
        return '/'.join((self.host, self.address, self.use.value, self.vgpu))


def make_rows(
    found: Sequence[host_agents.Agent], gpus: Sequence[fleet.GPU]
) -> list[Row]:
    """What the agents tell, with the providers of Placement."""
    providers = {(gpu.host, gpu.address): gpu for gpu in gpus}
    return [
        row
        for agent in found
        for gpu in agent.gpus
        for row in _make_rows(
            agent.host, gpu, providers.get((agent.host, gpu.address))
        )
    ]


def _make_rows(
    host: str, gpu: host_agents.GPU, provider: fleet.GPU | None
) -> Iterator[Row]:
    uuid = provider.uuid if provider else None
    served = provider.facts.types if provider else ()
    vfs = gpu.enabled, gpu.possible
    if gpu.possible:
        command = host_commands.for_gpu(gpu)
        use = _find_sriov(gpu)
        yield Row(host, gpu.address, uuid, use, vfs, command)
    for found in gpu.functions:
        use = _find_use(found)
        yield Row(
            host,
            gpu.address,
            uuid,
            use,
            vfs,
            host_commands.for_function(gpu, found, served),
            gpu.available_types if use is Use.FREE else (),
            found,
        )


def _find_sriov(gpu: host_agents.GPU) -> Use:
    if not gpu.enabled:
        return Use.OFF
    return Use.ON if gpu.enabled >= gpu.possible else Use.PART


def _find_use(found: host_agents.Function) -> Use:
    if found.server:
        return Use.SERVER
    if found.vgpu:
        return Use.VGPU
    return _STATES.get(found.state, Use.NO_TYPES)


def _place(row: Row) -> tuple[object, ...]:
    is_function = row.function is not None
    return (
        listing.natural(row.host),
        row.gpu,
        is_function,
        row.address,
        not row.vgpu,
        row.vgpu,
    )


RULES: listing.Rules[Row] = listing.Rules(
    filters={
        'host': lambda row, text: listing.is_found(row.host, text),
        'gpu': lambda row, text: row.gpu == text,
        'type': lambda row, text: text in (row.type, *row.available),
        'use': lambda row, text: row.use.value == text,
    },
    orders={
        'host': _place,
        'gpu': lambda row: row.gpu,
        'address': lambda row: row.address,
        'type': lambda row: listing.natural(row.type),
        'server': lambda row: row.server,
        'use': lambda row: row.use.value,
    },
    default='host',
)


def list_choosers(
    rows: Sequence[Row], place: listing.Place
) -> list[choosers.Chooser]:
    """The filters whose values can be listed."""

    def pairs(values: typing.Iterable[str]) -> list[tuple[str, typing.Any]]:
        return [(value, value) for value in listing.list_choices(values)]

    types = {name for row in rows for name in (row.type, *row.available)}
    uses = [(use.value, text) for use, (text, _colour) in USES.items()]
    return [
        choosers.Chooser(name, label, choices, place.filter_of(name))
        for name, label, choices in (
            ('gpu', _('Parent GPU'), pairs(row.gpu for row in rows)),
            ('type', _('vGPU type'), pairs(types)),
            ('use', _('State'), uses),
        )
    ]
