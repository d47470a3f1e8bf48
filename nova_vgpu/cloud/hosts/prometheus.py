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

"""One request to Prometheus, and its answer in checked values.

The pages of Horizon and the client have settings of the same form that say
where it is; without them nothing is asked. What comes back is text of other
programs: an answer of the wrong form is an error. Neither the password nor the
token is in any message, and redirects are not followed with them.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import math
import re
import typing
import urllib.parse

import requests
import requests.auth

from nova_vgpu import exception
from nova_vgpu.cloud import names

_TIMEOUT = 10.0
# What a header can have.
_TOKEN = re.compile(r'[!-~]+')
# What an answer of another form leads to.
_WRONG_FORM = (ValueError, TypeError, LookupError, AttributeError)
_KEYS = frozenset({'url', 'ca', 'username', 'password', 'token', 'timeout'})


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Where Prometheus is; ``verify`` is a file of CAs, or True.

    ``name`` is what the user calls these settings.
    """

    name: str
    url: str
    verify: bool | str = True
    username: str | None = None
    password: str = dataclasses.field(default='', repr=False)
    token: str | None = dataclasses.field(default=None, repr=False)
    timeout: float = _TIMEOUT


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """The value of a series, and when it was asked for."""

    name: str
    labels: Mapping[str, str]
    value: float
    at: float


def parse_settings(given: typing.Any, name: str) -> Settings | None:
    """What a user has set; None if there is no Prometheus.

    :param name: what the user calls it, for messages.
    :raises CloudError: if it cannot be used.
    """
    if not given:
        return None
    if not isinstance(given, Mapping) or not given.get('url'):
        raise _wrong(name, 'it needs a dictionary with "url"')
    unknown = sorted(str(key) for key in set(given) - _KEYS)
    if unknown:
        known = ', '.join(sorted(_KEYS))
        raise _wrong(name, f'{", ".join(unknown)} is unknown; known: {known}')
    return Settings(
        name,
        _parse_url(name, str(given['url'])),
        given.get('ca') or True,
        _parse_text(given.get('username')),
        _parse_text(given.get('password')) or '',
        _parse_token(name, given.get('token')),
        _parse_timeout(name, given.get('timeout', _TIMEOUT)),
    )


def _parse_url(name: str, given: str) -> str:
    url = None
    with contextlib.suppress(ValueError):
        url = urllib.parse.urlsplit(given)
    if url is None or url.scheme not in ('http', 'https') or not url.hostname:
        raise _wrong(
            name, '"url" has to be like https://prometheus.example:9090'
        )
    if url.username is not None:
        raise _wrong(
            name, 'put the user into "username" and "password", not "url"'
        )
    return given.rstrip('/')


def _parse_text(given: typing.Any) -> str | None:
    """A password may be written as a number."""
    return None if given is None else str(given)


def _parse_token(name: str, given: typing.Any) -> str | None:
    token = _parse_text(given)
    if token is not None and not _TOKEN.fullmatch(token):
        # Not the token itself. A line break is that of the file it is from.
        raise _wrong(
            name,
            '"token" has to be characters of ASCII without spaces and line '
            'breaks',
        )
    return token


def _parse_timeout(name: str, given: typing.Any) -> float:
    """openstacksdk makes texts of the numbers in ``clouds.yaml``."""
    with contextlib.suppress(ValueError, TypeError):
        if 0 < float(given) < math.inf:
            return float(given)
    raise _wrong(name, '"timeout" has to be a number of seconds')


def _wrong(name: str, what: str) -> exception.CloudError:
    return exception.CloudError(f'{name} is wrong: {what}.')


def ask(settings: Settings, query: str) -> tuple[Sample, ...]:
    """The series that a query selects, as they are now.

    :raises CloudError: if Prometheus does not answer as it should.
    """
    place = f'Prometheus at {settings.url}'
    try:
        answer = _send(settings, query)
    except requests.exceptions.Timeout as error:
        raise exception.CloudError(
            f'{place} timed out after {settings.timeout:g} s.'
        ) from error
    except requests.exceptions.SSLError as error:
        raise exception.CloudError(
            f'The certificate of {place} is not trusted. Set "ca" in '
            f'{settings.name} to the file of its CA.'
        ) from error
    except (
        requests.exceptions.RequestException,
        OSError,
        ValueError,  # a host that cannot be one
    ) as error:
        raise exception.CloudError(
            f'{place} cannot be reached: {type(error).__name__}. Check "url" '
            f'and "ca" in {settings.name}.'
        ) from error
    if answer.status_code in (401, 403):
        raise exception.CloudError(
            f'{place} refuses the request ({answer.status_code}). Check '
            f'"username" and "password", or "token", in {settings.name}.'
        )
    if answer.status_code != 200:
        raise exception.CloudError(
            f'{place} answers with status {answer.status_code}.'
        )
    try:
        return parse(answer.json())
    except (*_WRONG_FORM, RecursionError) as error:
        raise exception.CloudError(
            f'{place} does not answer in the form of its HTTP API. Check '
            f'"url" in {settings.name}.'
        ) from error


class _Token(requests.auth.AuthBase):
    """A header that is given alone gives way to what is in ~/.netrc."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(
        self, request: requests.PreparedRequest
    ) -> requests.PreparedRequest:
        request.headers['Authorization'] = f'Bearer {self._token}'
        return request


def _send(settings: Settings, query: str) -> requests.Response:
    auth: requests.auth.AuthBase | None = None
    if settings.username is not None:
        # Text would be sent in Latin-1, which does not have all characters.
        auth = requests.auth.HTTPBasicAuth(
            settings.username.encode(), settings.password.encode()
        )
    elif settings.token is not None:
        auth = _Token(settings.token)
    return requests.get(
        f'{settings.url}/api/v1/query',
        params={'query': query},
        auth=auth,
        verify=settings.verify,
        timeout=settings.timeout,
        allow_redirects=False,
    )


def parse(answer: typing.Any) -> tuple[Sample, ...]:
    """The samples of an answer.

    :raises ValueError, TypeError, LookupError, AttributeError: if it has
        another form.
    """
    data = answer['data']
    if answer['status'] != 'success' or data['resultType'] != 'vector':
        raise ValueError('not a vector')
    return tuple(_parse_sample(found) for found in data['result'])


def _parse_sample(found: typing.Any) -> Sample:
    at, value = (float(number) for number in found['value'])
    if not (math.isfinite(at) and math.isfinite(value)):
        raise ValueError('not a number')
    labels = {
        key: names.printable(text) for key, text in found['metric'].items()
    }
    return Sample(labels.pop('__name__'), labels, value, at)
