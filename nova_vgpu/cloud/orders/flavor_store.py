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

"""Flavors in Nova: what is created and changed there.

A new flavor takes two requests, as Nova takes extra specs only for a flavor
that exists. In between, a server with it would have no GPU. Nova has no
flavors that are disabled or become public later, so the second request follows
at once, and the flavor is deleted again if it fails.
"""

from openstack import connection as sdk_connection
from openstack import exceptions as sdk_exceptions

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu.cloud import service_errors
from nova_vgpu.cloud.orders import flavor_change
from nova_vgpu.cloud.orders import flavors

# The first version in which Nova validates extra specs; openstacksdk uses an
# older one.
_VALIDATING = '2.86'


class FlavorStore:
    """The flavors of a cloud, with the permissions of one account."""

    def __init__(self, connection: sdk_connection.Connection) -> None:
        self._compute = connection.compute

    def find_server(self, flavor: flavors.Flavor) -> str | None:
        """A server of any project that uses a flavor: its name and UUID."""
        with service_errors.explain('Nova', 'list servers'):
            for server in self._compute.servers(
                details=False, all_projects=True, flavor=flavor.id, limit=1
            ):
                return f'{names.printable(server.name)} ({server.id})'
        return None

    def create(self, wanted: flavors.Flavor) -> str:
        """Create a flavor with its extra specs; gives its id.

        :raises CloudError: if Nova refuses or does not answer. The flavor
            does not exist then, unless the text says so.
        """
        with service_errors.explain('Nova', f'create flavor {wanted.name}'):
            made = self._compute.create_flavor(
                name=wanted.name,
                vcpus=wanted.size.vcpus,
                ram=wanted.size.ram_mib,
                disk=wanted.size.disk_gib,
                ephemeral=wanted.size.ephemeral_gib,
                swap=wanted.size.swap_mib,
                is_public=wanted.is_public,
            )
        identity = str(made.id)
        try:
            self._set(wanted.name, identity, dict(wanted.extra_specs))
        except exception.CloudError as error:
            self._delete(wanted.name, identity, error)
            raise
        return identity

    def update(
        self, flavor: flavors.Flavor, change: flavor_change.Change
    ) -> None:
        """Set extra specs, then remove others.

        A flavor in between asks for more than it should, not for less.

        :raises CloudError: if Nova refuses or does not answer.
        """
        if change.to_set:
            self._set(flavor.name, flavor.id, dict(change.to_set))
        for key in change.to_remove:
            what = f'remove {key} from flavor {flavor.name}'
            with service_errors.explain('Nova', what):
                self._compute.delete_flavor_extra_specs_property(
                    flavor.id, key
                )

    def _set(self, name: str, identity: str, specs: dict[str, str]) -> None:
        what = f'set the extra specs of flavor {name}'
        with service_errors.explain('Nova', what):
            response = self._compute.post(
                f'/flavors/{identity}/os-extra_specs',
                json={'extra_specs': specs},
                microversion=_VALIDATING,
            )
            sdk_exceptions.raise_from_response(response)

    def _delete(
        self, name: str, identity: str, cause: exception.CloudError
    ) -> None:
        """Delete a flavor that was just created."""
        try:
            with service_errors.explain('Nova', f'delete flavor {name}'):
                self._compute.delete_flavor(identity, ignore_missing=True)
        except exception.CloudError as error:
            raise exception.CloudError(
                f'{cause} Flavor {name} exists without extra specs: servers '
                'with it have no GPU. Do the same again to complete it, or '
                f'delete it. ({error})'
            ) from cause
