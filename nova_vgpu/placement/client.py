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

"""Providers, inventories and traits in Placement.

Everything is read before it is written, and written only where it differs, so
that doing it twice does nothing the second time. Traits that are not of this
project's making stay where they are.
"""

from collections.abc import Iterable
import dataclasses
import typing
import uuid

from keystoneauth1 import exceptions as ksa_exceptions
import openstack

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.knowledge import traits

# Nested providers in allocation candidates, and their mappings (2023.1 on).
_MICROVERSION = '1.39'


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A way to satisfy a request: which provider gives what."""

    provider: str
    resources: tuple[tuple[str, int], ...]


class PlacementClient:
    """A Placement service, by an adapter of keystoneauth.

    ``connection.placement`` of openstacksdk is one.
    """

    def __init__(self, adapter: typing.Any) -> None:
        self._adapter = adapter

    def ensure_tree(
        self, node: str, providers: Iterable[values.Provider]
    ) -> int:
        """Make the node's provider and those below it exist as given.

        :returns: how many requests changed something.
        """
        root, changes = self._ensure_provider(node, None)
        for provider in providers:
            child, created = self._ensure_provider(provider.name, root)
            changes += created
            changes += self._ensure_inventory(child, provider)
            changes += self._ensure_traits(child, provider.traits)
        return changes

    def list_candidates(
        self, resource_class: str, amount: int, required: Iterable[str] = ()
    ) -> tuple[Candidate, ...]:
        """Who could give that much of a resource, with those traits."""
        query = {'resources': f'{resource_class}:{amount}'}
        if required:
            query['required'] = ','.join(required)
        found = self._call('get', '/allocation_candidates', params=query)
        names = {
            of: self._call('get', f'/resource_providers/{of}')['name']
            for of in found['provider_summaries']
        }
        return tuple(
            Candidate(names[of], tuple(sorted(given['resources'].items())))
            for request in found['allocation_requests']
            for of, given in request['allocations'].items()
        )

    def _ensure_provider(
        self, name: str, parent: str | None
    ) -> tuple[str, int]:
        found = self._call('get', '/resource_providers', params={'name': name})
        if found['resource_providers']:
            return str(found['resource_providers'][0]['uuid']), 0
        created = str(uuid.uuid4())
        body = {'name': name, 'uuid': created, 'parent_provider_uuid': parent}
        self._call('post', '/resource_providers', json=body)
        return created, 1

    def _ensure_inventory(
        self, provider_uuid: str, provider: values.Provider
    ) -> int:
        path = f'/resource_providers/{provider_uuid}/inventories'
        there = self._call('get', path)
        wanted = {
            provider.resource_class: {
                'total': provider.total,
                'reserved': 0,
                'min_unit': 1,
                'max_unit': provider.total,
                'step_size': 1,
                'allocation_ratio': 1.0,
            }
        }
        if there['inventories'] == wanted:
            return 0
        changes = self._ensure_resource_class(provider.resource_class)
        self._call(
            'put',
            path,
            json={
                'inventories': wanted,
                'resource_provider_generation': there[
                    'resource_provider_generation'
                ],
            },
        )
        return changes + 1

    def _ensure_resource_class(self, name: str) -> int:
        if not name.startswith('CUSTOM_'):
            return 0
        self._call('put', f'/resource_classes/{name}')
        return 1

    def _ensure_traits(self, provider_uuid: str, wanted: Iterable[str]) -> int:
        path = f'/resource_providers/{provider_uuid}/traits'
        there = self._call('get', path)
        foreign = {
            trait
            for trait in there['traits']
            if not trait.startswith(traits.OWN_PREFIXES)
        }
        target = foreign | set(wanted)
        if target == set(there['traits']):
            return 0
        changes = self._ensure_custom_traits(target)
        self._call(
            'put',
            path,
            json={
                'traits': sorted(target),
                'resource_provider_generation': there[
                    'resource_provider_generation'
                ],
            },
        )
        return changes + 1

    def _ensure_custom_traits(self, wanted: Iterable[str]) -> int:
        known = set(self._call('get', '/traits')['traits'])
        missing = sorted(set(wanted) - known)
        for trait in missing:
            self._call('put', f'/traits/{trait}')
        return len(missing)

    def _call(
        self, method: str, path: str, **arguments: typing.Any
    ) -> typing.Any:
        """One request; its JSON, or an error in words.

        :raises PlacementError: if Placement does not answer, or says no.
        """
        try:
            response = self._adapter.request(
                path,
                method.upper(),
                microversion=_MICROVERSION,
                raise_exc=False,
                **arguments,
            )
        except ksa_exceptions.ClientException as error:
            raise _no_answer(error) from error
        if response.status_code >= 400:
            raise exception.PlacementError(
                f'Placement refused {method.upper()} {path}: '
                f'{response.status_code} {_reason(response)}'
            )
        return response.json() if response.content else None


def connect_without_keystone(url: str, token: str) -> PlacementClient:
    """A client for a stand-alone Placement that runs with ``noauth2``.

    :raises PlacementError: if it does not answer.
    """
    connection = openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_type='admin_token',
        auth={'endpoint': url, 'token': token},
        placement_endpoint_override=url,
        placement_default_microversion=_MICROVERSION,
    )
    try:
        return PlacementClient(connection.placement)
    except ksa_exceptions.ClientException as error:
        raise _no_answer(error) from error


def _no_answer(error: Exception) -> exception.PlacementError:
    return exception.PlacementError(f'Placement does not answer: {error}')


def _reason(response: typing.Any) -> str:
    try:
        errors = response.json()['errors']
        return '; '.join(str(error['detail']) for error in errors)
    except (ValueError, KeyError, TypeError):
        return str(response.text[:200])
