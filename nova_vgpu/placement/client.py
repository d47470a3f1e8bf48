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

"""Providers, inventories and traits in Placement, as values.

Reading returns Placement's data as values; writing sends one request for each
change. What has to change is decided elsewhere.

Not openstacksdk's resources: they have no reshape, and that of a provider ends
at microversion 1.20.
"""

from collections.abc import Container
from collections.abc import Iterable
import dataclasses
import enum
import typing

from nova_vgpu import exception
from nova_vgpu import values

if typing.TYPE_CHECKING:
    from nova_vgpu.placement import connection

_PROVIDERS = '/resource_providers'
# The last one in which a reshape leaves the types of consumers unchanged. Nova
# sets none, and later ones require one.
_WITHOUT_CONSUMER_TYPES = '1.37'
_Json = dict[str, typing.Any]


class Conflict(exception.PlacementError):
    """Something has changed since it was read; read again."""


class Forbidden(exception.PlacementError):
    """The account may not do this."""


class BadRequest(exception.PlacementError):
    """The request names something that Placement does not know."""


class Part(enum.Flag):
    """What to read of a provider beside its place in the tree."""

    TRAITS = enum.auto()
    INVENTORIES = enum.auto()
    ALL = TRAITS | INVENTORIES


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """An allocation candidate: a provider and its resources."""

    provider: str
    resources: tuple[tuple[str, int], ...]


class PlacementClient:
    """A Placement service."""

    def __init__(self, requester: 'connection.Requester') -> None:
        self.patience = requester.patience
        self._call = requester.call

    def read_tree(
        self,
        node: str,
        part: Part = Part.ALL,
        only: Container[str] | None = None,
        consumers_of: Container[str] = (),
    ) -> values.PlacementTree:
        """The providers of a compute node.

        Generations are those of the first request: a write fails if
        something changed while the rest was read.

        :param only: names of the providers whose parts are read.
        :param consumers_of: names of those whose consumers are read.
        """
        found = self._call('GET', _PROVIDERS, params={'name': node})
        if not found['resource_providers']:
            return self._complete(values.PlacementTree(node), part)
        root = found['resource_providers'][0]['uuid']
        listed = self._call('GET', _PROVIDERS, params={'in_tree': root})
        providers = tuple(
            self._read_provider(
                held, part if only is None or held.name in only else Part(0)
            )
            for held in _in_order(listed['resource_providers'])
        )
        consumers = self._read_consumers(
            held.uuid for held in providers if held.name in consumers_of
        )
        tree = values.PlacementTree(node, providers, consumers=consumers)
        return self._complete(tree, part)

    def apply(
        self, change: values.Change, generations: dict[str, int]
    ) -> None:
        """Make one change.

        :param generations: those of the providers by UUID; updated here.
        :raises Conflict: if something has changed since it was read.
        """
        match change:
            case values.CreateTrait():
                self._call('PUT', f'/traits/{change.name}')
            case values.CreateResourceClass():
                self._call('PUT', f'/resource_classes/{change.name}')
            case values.CreateProvider():
                made = self._call('POST', _PROVIDERS, json=_provider(change))
                generations[change.uuid] = made['generation']
            case values.DeleteProvider():
                self._call('DELETE', f'{_PROVIDERS}/{change.uuid}')
            case values.SetInventories():
                stock = {'inventories': _inventories(change.after)}
                self._set(change.uuid, 'inventories', stock, generations)
            case values.SetTraits():
                labels = {'traits': sorted(change.after)}
                self._set(change.uuid, 'traits', labels, generations)
            case values.Reshape():
                self._reshape(change, generations)

    def list_candidates(
        self, resource_class: str, amount: int, required: Iterable[str] = ()
    ) -> tuple[Candidate, ...]:
        """Allocation candidates for a resource with those traits."""
        query = {'resources': f'{resource_class}:{amount}'}
        if required:
            query['required'] = ','.join(required)
        found = self._call('GET', '/allocation_candidates', params=query)
        names = {
            of: self._call('GET', f'{_PROVIDERS}/{of}')['name']
            for of in found['provider_summaries']
        }
        return tuple(
            Candidate(names[of], tuple(sorted(given['resources'].items())))
            for request in found['allocation_requests']
            for of, given in request['allocations'].items()
        )

    def _complete(
        self, tree: values.PlacementTree, part: Part
    ) -> values.PlacementTree:
        """Add all traits and resource classes of Placement, if needed."""
        traits: list[str] = []
        classes: list[_Json] = []
        if Part.TRAITS in part:
            traits = self._call('GET', '/traits')['traits']
        if Part.INVENTORIES in part:
            classes = self._call('GET', '/resource_classes')[
                'resource_classes'
            ]
        return dataclasses.replace(
            tree,
            known_traits=frozenset(traits),
            known_classes=frozenset(found['name'] for found in classes),
        )

    def _read_provider(
        self, held: values.PlacementProvider, part: Part
    ) -> values.PlacementProvider:
        path = f'{_PROVIDERS}/{held.uuid}'
        if Part.TRAITS in part:
            traits = self._call('GET', f'{path}/traits')['traits']
            held = dataclasses.replace(held, traits=frozenset(traits))
        if Part.INVENTORIES in part:
            found = self._call('GET', f'{path}/inventories')['inventories']
            used: dict[str, int] = {}
            if found:  # no inventory, no usage
                used = self._call('GET', f'{path}/usages')['usages']
            held = dataclasses.replace(
                held,
                inventories=tuple(
                    values.Inventory(name, **fields)
                    for name, fields in sorted(found.items())
                ),
                used=tuple(sorted(item for item in used.items() if item[1])),
            )
        return held

    def _read_consumers(
        self, providers: Iterable[str]
    ) -> tuple[values.Consumer, ...]:
        found: set[str] = set()
        for uuid in providers:
            path = f'{_PROVIDERS}/{uuid}/allocations'
            found.update(self._call('GET', path)['allocations'])
        read = (
            _consumer(uuid, self._call('GET', f'/allocations/{uuid}'))
            for uuid in sorted(found)
        )
        return tuple(consumer for consumer in read if consumer is not None)

    def _reshape(
        self, change: values.Reshape, generations: dict[str, int]
    ) -> None:
        """Placement's answer does not contain the new generations."""
        body = {
            'inventories': {
                part.uuid: {
                    'inventories': _inventories(part.after),
                    'resource_provider_generation': generations.pop(part.uuid),
                }
                for part in change.inventories
            },
            'allocations': {
                consumer.uuid: _allocations(consumer)
                for consumer in change.consumers
            },
        }
        try:
            self._call(
                'POST',
                '/reshaper',
                microversion=_WITHOUT_CONSUMER_TYPES,
                json=body,
            )
        except Forbidden as error:
            # Since 2023.1 an administrator may not, by default.
            raise exception.PlacementError(
                f'{error} The role "service" is required, which the account '
                'of nova-compute has: log in with the section [placement] of '
                'its nova.conf.'
            ) from error

    def _set(
        self, uuid: str, what: str, body: _Json, generations: dict[str, int]
    ) -> None:
        body['resource_provider_generation'] = generations[uuid]
        answer = self._call('PUT', f'{_PROVIDERS}/{uuid}/{what}', json=body)
        generations[uuid] = answer['resource_provider_generation']


def _provider(change: values.CreateProvider) -> _Json:
    return {
        'name': change.name,
        'uuid': change.uuid,
        'parent_provider_uuid': change.parent,
    }


def _inventories(inventories: Iterable[values.Inventory]) -> _Json:
    made = {}
    for inventory in inventories:
        fields = dataclasses.asdict(inventory)
        made[fields.pop('resource_class')] = fields
    return made


def _consumer(uuid: str, found: _Json) -> values.Consumer | None:
    """The consumer; None if its allocations were deleted since."""
    if not found['allocations']:
        return None
    return values.Consumer(
        uuid,
        found['consumer_generation'],
        found['project_id'],
        found['user_id'],
        tuple(
            values.Allocation(provider, resource_class, amount)
            for provider, given in sorted(found['allocations'].items())
            for resource_class, amount in sorted(given['resources'].items())
        ),
    )


def _allocations(consumer: values.Consumer) -> _Json:
    made: dict[str, dict[str, dict[str, int]]] = {}
    for given in consumer.allocations:
        of_provider = made.setdefault(given.provider, {'resources': {}})
        of_provider['resources'][given.resource_class] = given.amount
    return {
        'allocations': made,
        'project_id': consumer.project,
        'user_id': consumer.user,
        'consumer_generation': consumer.generation,
    }


def _in_order(
    listed: Iterable[_Json],
) -> tuple[values.PlacementProvider, ...]:
    """The root, and after each provider its children by name."""
    children: dict[str | None, list[values.PlacementProvider]] = {}
    for found in listed:
        held = values.PlacementProvider(
            found['uuid'],
            found['name'],
            found['generation'],
            found['parent_provider_uuid'],
        )
        children.setdefault(held.parent, []).append(held)

    def below(parent: str | None) -> list[values.PlacementProvider]:
        of_parent = sorted(children.get(parent, ()), key=lambda p: p.name)
        return [q for p in of_parent for q in (p, *below(p.uuid))]

    return tuple(below(None))
