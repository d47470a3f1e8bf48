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

"""The rows that a fleet is in Placement's database.

They go into its tables past its API, by COPY: through it, a quarter of a
million providers take hours.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import datetime
import io
import typing

from benchmarks import fleet_layouts
from nova_vgpu.publish import providers

PROJECT = 'project'
USER = 'user'


def load(
    connection: typing.Any, layout: fleet_layouts.Layout, hosts: int
) -> None:
    """Fill a database that has Placement's schema and nothing more."""
    with connection.cursor() as cursor:
        fleet = _Fleet(cursor, layout, hosts)
        fleet.copy_providers()
        fleet.copy_inventories()
        fleet.copy_traits()
        fleet.copy_consumers()
        fleet.copy_allocations()
        cursor.execute(
            "SELECT setval('resource_providers_id_seq', max(id)) "
            'FROM resource_providers'
        )
        # What PostgreSQL would do by itself before long, and neither layout
        # is to wait for.
        cursor.execute('VACUUM ANALYZE')
        cursor.execute('CHECKPOINT')


class _Fleet:
    """The rows of a fleet. Hosts count from 0, a host's ids from its root."""

    def __init__(
        self, cursor: typing.Any, layout: fleet_layouts.Layout, hosts: int
    ) -> None:
        self._cursor = cursor
        self._layout = layout
        self._hosts = range(hosts)
        self._now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        self._classes = self._read_ids('resource_classes')

    def copy_providers(self) -> None:
        def rows() -> Iterator[tuple[object, ...]]:
            for number in self._hosts:
                root, name = self._root(number), fleet_layouts.node(number)
                identity = fleet_layouts.make_uuid(name)
                yield root, identity, name, 1, root, r'\N'
                for place, child in enumerate(self._layout.children):
                    below = providers.name_of(name, child.device)
                    identity = fleet_layouts.make_uuid(below)
                    own = self._child(number, place)
                    yield own, identity, below, 1, root, root

        self._copy(
            'resource_providers',
            'id uuid name generation root_provider_id parent_provider_id',
            rows(),
        )

    def copy_inventories(self) -> None:
        def rows() -> Iterator[tuple[object, ...]]:
            for number in self._hosts:
                root = self._root(number)
                for name, held in fleet_layouts.ROOT.items():
                    total, reserved, ratio = held
                    limits = (reserved, 1, total, 1, ratio)
                    yield root, self._classes[name], total, *limits
                for place, child in enumerate(self._layout.children):
                    own = self._child(number, place)
                    limits = (0, 1, child.total, 1, 1.0)
                    yield own, self._classes['VGPU'], child.total, *limits

        self._copy(
            'inventories',
            'resource_provider_id resource_class_id total reserved min_unit '
            'max_unit step_size allocation_ratio',
            rows(),
        )

    def copy_traits(self) -> None:
        of_root = fleet_layouts.root_traits()
        names = {
            *of_root,
            *(
                name
                for child in self._layout.children
                for name in child.traits
            ),
        }
        known = self._read_ids('traits')
        added = sorted(names.difference(known))
        self._copy('traits', 'name', ((name,) for name in added))
        ids = self._read_ids('traits')

        def rows() -> Iterator[tuple[object, ...]]:
            for number in self._hosts:
                for name in of_root:
                    yield ids[name], self._root(number)
                for place, child in enumerate(self._layout.children):
                    for name in child.traits:
                        yield ids[name], self._child(number, place)

        self._copy(
            'resource_provider_traits', 'trait_id resource_provider_id', rows()
        )

    def copy_consumers(self) -> None:
        """One of every vGPU in use; the same ones in both layouts."""
        self._copy('projects', 'external_id', [(PROJECT,)])
        self._copy('users', 'external_id', [(USER,)])
        self._copy('consumer_types', 'name', [('INSTANCE',)])
        self._copy(
            'consumers',
            'uuid project_id user_id generation consumer_type_id',
            (
                (fleet_layouts.consumer_uuid(number, order), 1, 1, 1, 1)
                for number in self._hosts
                for order, _ in enumerate(self._layout.list_used())
            ),
        )

    def copy_allocations(self) -> None:
        def rows() -> Iterator[tuple[object, ...]]:
            for number in self._hosts:
                root = self._root(number)
                for order, place in enumerate(self._layout.list_used()):
                    consumer = fleet_layouts.consumer_uuid(number, order)
                    own = self._child(number, place)
                    yield own, consumer, self._classes['VGPU'], 1
                    for name, amount in fleet_layouts.SERVER.items():
                        yield root, consumer, self._classes[name], amount

        self._copy(
            'allocations',
            'resource_provider_id consumer_id resource_class_id used',
            rows(),
        )

    def _root(self, number: int) -> int:
        return 1 + number * self._layout.per_host

    def _child(self, number: int, place: int) -> int:
        return self._root(number) + 1 + place

    def _read_ids(self, table: str) -> dict[str, int]:
        self._cursor.execute(
            f'SELECT name, id FROM {table}'  # noqa: S608 - a name of our own
        )
        return dict(self._cursor.fetchall())

    def _copy(
        self, table: str, columns: str, rows: Iterable[tuple[object, ...]]
    ) -> None:
        text = io.StringIO()
        for row in rows:
            text.write('\t'.join(map(str, (*row, self._now))) + '\n')
        text.seek(0)
        self._cursor.copy_from(
            text, table, columns=(*columns.split(), 'created_at')
        )
