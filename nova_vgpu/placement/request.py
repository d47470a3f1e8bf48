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

"""One request to Placement, with retries.

A request that got no answer, or a server error, is sent again until a
deadline. That is safe with all requests of this project, even if the first
attempt succeeded and only its answer was lost: a write has the provider's
generation or a UUID of our choice, so Placement refuses the second attempt as
a conflict, and everything is read again.

Not the retries of keystoneauth's adapter: they count attempts, so they have
neither a deadline nor random waits, and do not repeat a failed discovery.
"""

import itertools
import logging
import re
import typing

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa_exceptions

from nova_vgpu import exception
from nova_vgpu.placement import retry_policy

LOG = logging.getLogger(__name__)

# Nested providers in allocation candidates, and their mappings (2023.1 on).
MICROVERSION = '1.39'

_TOO_MANY = 429
_FORBIDDEN = 403
_NOT_FOUND = 404
_CONFLICT = 409
_IN_URL = re.compile(r'(?<=://)[^/@\s]+@')


class Conflict(exception.PlacementError):
    """Something has changed since it was read; read again."""


class Forbidden(exception.PlacementError):
    """The account may not do this."""


class _NoAnswer(Exception):
    """An attempt failed; another one may succeed."""


class Requester:
    """Makes requests through an adapter of keystoneauth."""

    def __init__(
        self,
        adapter: ksa_adapter.Adapter,
        patient: retry_policy.RetryPolicy | None = None,
    ) -> None:
        self._adapter = adapter
        self.patience = patient or retry_policy.RetryPolicy()

    def call(
        self, method: str, path: str, **arguments: typing.Any
    ) -> typing.Any:
        """The JSON of the answer, None if it is empty.

        :param arguments: of keystoneauth's request; ``microversion`` if it
            differs from ours.
        :raises Conflict: if the generation is outdated.
        :raises Forbidden: if the account may not do this.
        :raises PlacementError: if Placement refuses, or does not answer.
        """
        clock = self.patience.clock
        began = clock()
        until = began + self.patience.deadline
        for attempt in itertools.count(1):
            try:
                return self._attempt(method, path, arguments)
            except _NoAnswer as error:
                LOG.debug('attempt %d failed: %s', attempt, error)
                if not self.patience.wait(attempt, until):
                    raise exception.PlacementError(
                        f'Placement does not answer: {error} (attempts: '
                        f'{attempt}, in {clock() - began:.0f} s)'
                    ) from error

    def _attempt(
        self, method: str, path: str, arguments: dict[str, typing.Any]
    ) -> typing.Any:
        LOG.debug('%s %s %s', method, path, arguments.get('params', ''))
        try:
            response = self._adapter.request(
                path,
                method,
                raise_exc=False,
                timeout=self.patience.timeout,
                **{'microversion': MICROVERSION, **arguments},
            )
        except ksa_exceptions.SSLError as error:
            raise exception.PlacementError(_clean(error)) from error
        except (
            ksa_exceptions.ConnectionError,
            ksa_exceptions.HttpServerError,  # of Keystone
            ksa_exceptions.DiscoveryFailure,
        ) as error:
            raise _NoAnswer(_clean(error)) from error
        except (ksa_exceptions.ClientException, TypeError) as error:
            # TypeError: an option of [placement] with a value that
            # keystoneauth cannot use.
            raise exception.PlacementError(
                f'The request to Placement failed: {_clean(error)}'
            ) from error
        return _read(method, path, response)


def _read(method: str, path: str, response: typing.Any) -> typing.Any:
    status = response.status_code
    if status >= 500 or status == _TOO_MANY:
        raise _NoAnswer(f'{method} {path}: {status} {_reason(response)}')
    if status >= 400:
        # A provider may have been deleted since it was listed. But a missing
        # list of providers means that this is not Placement.
        gone = status == _NOT_FOUND and path.startswith('/resource_providers/')
        family: type[exception.PlacementError] = exception.PlacementError
        if gone or status == _CONFLICT:
            family = Conflict
        elif status == _FORBIDDEN:
            family = Forbidden
        raise family(
            f'Placement refused {method} {path}: {status} {_reason(response)}'
        )
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError as error:
        raise _NoAnswer(f'{method} {path}: the answer is not JSON') from error


def _reason(response: typing.Any) -> str:
    try:
        errors = response.json()['errors']
        text = '; '.join(str(error['detail']) for error in errors)
    except (ValueError, KeyError, TypeError):
        text = str(response.text[:200])
    return ' '.join(text.split())


def _clean(error: Exception) -> str:
    """The error's text without credentials in URLs."""
    return _IN_URL.sub('***@', str(error))
