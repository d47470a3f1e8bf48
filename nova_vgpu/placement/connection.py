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

"""The way to Placement: credentials, and requests with retries.

On a compute node nova.conf has a section ``[placement]`` that nova-compute
uses; the same section is used here. Elsewhere ``clouds.yaml`` and the
variables ``OS_*`` are. A cloud that is given by name takes precedence over
both.

A request that got no answer, or a server error, is sent again until a
deadline. That is safe with all requests of this project, even if the first
attempt succeeded and only its answer was lost: a write has the provider's
generation or a UUID of our choice, so Placement refuses the second attempt as
a conflict, and everything is read again.

Not the retries of keystoneauth's adapter: they count attempts, so they have
neither a deadline nor random waits, and do not repeat a failed discovery.
"""

from collections.abc import Callable
import dataclasses
import itertools
import logging
import os
import random
import re
import time
import typing

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1 import loading
from keystoneauth1 import token_endpoint
from openstack import config as sdk_config
from openstack import exceptions as sdk_exceptions
from oslo_config import cfg

from nova_vgpu import exception
from nova_vgpu.placement import client

LOG = logging.getLogger(__name__)

GROUP = 'placement'

_SERVICE_TYPE = 'placement'
# As Nova has it.
_INTERFACES = ['internal', 'public']
# The administrator's token of Placement with "auth_strategy = noauth2", which
# checks nothing: not a secret.
_NOAUTH_TOKEN = 'admin'  # noqa: S105
_CURE = (
    'Name a cloud of clouds.yaml with --os-cloud, set the variables OS_*, or '
    'give --config-file a nova.conf with auth_type in [placement].'
)
# Nested providers in allocation candidates, and their mappings (2023.1 on).
MICROVERSION = '1.39'

_TOO_MANY = 429
_BAD_REQUEST = 400
_FORBIDDEN = 403
_NOT_FOUND = 404
_CONFLICT = 409
_IN_URL = re.compile(r'(?<=://)[^/@\s]+@')


@dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Times in seconds; tests replace the clock and the sleep.

    The waits double up to a limit and vary at random, so that the compute
    nodes of a cloud do not all retry at the same moment after an outage.

    ``deadline`` is for one request with all its attempts, ``timeout`` for one
    attempt. ``conflicts`` is the number of retries after a generation
    conflict.
    """

    deadline: float = 60.0
    timeout: float = 30.0
    first_wait: float = 0.5
    longest_wait: float = 8.0
    conflicts: int = 5
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def wait(self, attempt: int, until: float) -> bool:
        """Wait before the next attempt; False if time is up.

        :param attempt: the number of attempts made so far, from 1.
        :param until: the deadline on the clock.
        """
        longest = min(self.first_wait * 2 ** (attempt - 1), self.longest_wait)
        # Not for cryptography.
        pause = longest * random.uniform(0.5, 1.0)  # noqa: S311
        if self.clock() + pause >= until:
            return False
        self.sleep(pause)
        return True


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register ``[placement]``; to be called before the files are parsed."""
    loading.register_session_conf_options(conf, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(
        conf, GROUP, include_deprecated=False
    )
    conf.set_default('service_type', _SERVICE_TYPE, GROUP)
    conf.set_default('valid_interfaces', _INTERFACES, GROUP)


def connect(
    conf: cfg.ConfigOpts,
    cloud: str | None = None,
    patient: RetryPolicy | None = None,
) -> client.PlacementClient:
    """A client; no request is sent yet.

    :raises PlacementError: if credentials are missing or invalid.
    """
    try:
        configured = conf[GROUP].auth_type or conf[GROUP].auth_section
        if cloud is None and configured:
            adapter = _from_conf(conf)
        else:
            adapter = _from_cloud(cloud)
    except (
        ksa_exceptions.ClientException,
        sdk_exceptions.SDKException,
        cfg.Error,
        TypeError,  # of keystoneauth, for values that contradict each other
        ValueError,
    ) as error:
        raise exception.PlacementError(
            f'Cannot log in to Placement: {str(error).rstrip(".")}. {_CURE}'
        ) from error
    if patient is None:
        patient = RetryPolicy()
        if conf[GROUP].timeout:
            patient = dataclasses.replace(patient, timeout=conf[GROUP].timeout)
    return client.PlacementClient(Requester(adapter, patient))


def _from_conf(conf: cfg.ConfigOpts) -> ksa_adapter.Adapter:
    auth_group = conf[GROUP].auth_section or GROUP
    if auth_group != GROUP:
        loading.register_auth_conf_options(conf, auth_group)
    auth_type = conf[auth_group].auth_type
    auth = loading.load_auth_from_conf_options(conf, GROUP)
    if auth_type == 'none':
        # keystoneauth would send a token that Placement accepts without
        # any permission; this one has all of them.
        endpoint = conf[auth_group].endpoint
        auth = token_endpoint.Token(endpoint, _NOAUTH_TOKEN)
    session = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
    return loading.load_adapter_from_conf_options(
        conf, GROUP, session=session, auth=auth
    )


def _from_cloud(cloud: str | None) -> ksa_adapter.Adapter:
    region = sdk_config.get_cloud_region(cloud=cloud)
    if not cloud and not os.environ.get('OS_CLOUD'):
        # Without a name, openstacksdk takes the only cloud of a file.
        of_variables = os.environ.get('OS_CLOUD_NAME', 'envvars')
        if region.name not in (of_variables, 'defaults'):
            raise sdk_exceptions.SDKException(
                f'cloud {region.name} of clouds.yaml has to be named'
            )
    return ksa_adapter.Adapter(
        session=region.get_session(),
        service_type=region.get_service_type(_SERVICE_TYPE),
        service_name=region.get_service_name(_SERVICE_TYPE),
        interface=region.get_interface(_SERVICE_TYPE),
        region_name=region.get_region_name(_SERVICE_TYPE),
        endpoint_override=region.get_endpoint(_SERVICE_TYPE),
    )


class _NoAnswer(Exception):
    """An attempt failed; another one may succeed."""


class Requester:
    """Makes requests through an adapter of keystoneauth."""

    def __init__(
        self,
        adapter: ksa_adapter.Adapter,
        patient: RetryPolicy | None = None,
    ) -> None:
        self._adapter = adapter
        self.patience = patient or RetryPolicy()

    def call(
        self, method: str, path: str, **arguments: typing.Any
    ) -> typing.Any:
        """The JSON of the answer, None if it is empty.

        :param arguments: of keystoneauth's request; ``microversion`` if it
            differs from ours.
        :raises Conflict: if the generation is outdated.
        :raises Forbidden: if the account may not do this.
        :raises BadRequest: if it names what Placement does not know.
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
            family = client.Conflict
        elif status == _FORBIDDEN:
            family = client.Forbidden
        elif status == _BAD_REQUEST:
            family = client.BadRequest
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
