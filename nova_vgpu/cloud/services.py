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

"""Requests to Placement, Nova and Keystone, and what their refusals mean.

All of them only read. Answers are the JSON of the service; what they mean is
up to the caller.
"""

from collections.abc import Iterator
import concurrent.futures
import contextlib
import threading
import typing

from openstack import connection as sdk_connection
from openstack import exceptions as sdk_exceptions

from nova_vgpu import exception
from nova_vgpu.cloud import service_errors
from nova_vgpu.placement import client
from nova_vgpu.placement import connection as placement_connection

# As many as a small Placement has workers; more would wait there.
_CONNECTIONS = 8
#: For a user who waits.
PATIENCE = placement_connection.RetryPolicy(deadline=10.0, timeout=60.0)
_ROLE = (
    'You may not list resource providers. Placement requires the role "admin" '
    'for that, by default.'
)


class Services:
    """The services of a cloud, with the permissions of one account."""

    def __init__(
        self,
        connection: sdk_connection.Connection,
        patient: placement_connection.RetryPolicy = PATIENCE,
    ) -> None:
        self.connection = connection
        self.placement = placement_connection.Requester(
            connection.placement, patient
        )

    def ask_placement(self, path: str, **query: str) -> typing.Any:
        """The answer of Placement.

        :raises PlacementError: if it refuses or does not answer.
        """
        with explain_role():
            return self.placement.call('GET', path, params=query)

    def ask_placement_each(self, paths: list[str]) -> list[typing.Any]:
        """The answers to many requests, over several connections.

        None for a provider that was deleted since it was listed.

        :raises PlacementError: if Placement refuses or does not answer one of
            them; those that were not sent yet are not sent.
        """
        failed = threading.Event()

        def ask(path: str) -> typing.Any:
            if failed.is_set():
                return None  # what the first failure raises is what counts
            try:
                return self.ask_placement(path)
            except client.Conflict:
                return None
            except exception.PlacementError:
                failed.set()
                raise

        with concurrent.futures.ThreadPoolExecutor(_CONNECTIONS) as pool:
            return list(pool.map(ask, paths))

    def ask_nova(
        self, what: str, path: str, microversion: str, **query: str
    ) -> typing.Any:
        """The answer of Nova.

        :param what: what is asked for, in a message.
        :raises CloudError: if it refuses or does not answer.
        """
        with service_errors.explain('Nova', what):
            return _read(
                self.connection.compute.get(
                    path, params=query, microversion=microversion
                )
            )

    def try_nova(
        self,
        what: str,
        path: str,
        microversion: str,
        status: int,
        **query: str,
    ) -> typing.Any:
        """The same, or None if Nova answers with this HTTP status."""
        with service_errors.explain('Nova', what):
            response = self.connection.compute.get(
                path, params=query, microversion=microversion
            )
            if response.status_code == status:
                return None
            return _read(response)

    def ask_keystone(self, what: str, path: str, **query: str) -> typing.Any:
        """The answer of Keystone.

        :raises CloudError: if it refuses or does not answer.
        """
        with service_errors.explain('Keystone', what):
            return _read(self.connection.identity.get(path, params=query))


@contextlib.contextmanager
def explain_role() -> Iterator[None]:
    """Say which role Placement requires, if it refuses for that reason."""
    try:
        yield
    except client.Forbidden as error:
        raise exception.PlacementForbidden(f'{_ROLE} ({error})') from error


def _read(response: typing.Any) -> typing.Any:
    sdk_exceptions.raise_from_response(response)
    try:
        return response.json()
    except ValueError as error:
        raise sdk_exceptions.SDKException('its answer is not JSON') from error
