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

"""A request of Horizon as a connection to the cloud.

The connection has the token of the user who is logged in, so services decide
what this user may read or change. Horizon finds the URL of each service: it
knows the catalog of the user, the region that was chosen, and the type of
endpoint in its settings. No other token is asked for: if a service does not
accept this one, Horizon's login page is next.
"""

import typing

from django import http
from django.conf import settings
from horizon import exceptions
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint
from openstack import connection as sdk_connection
from openstack_auth import utils as auth_utils
from openstack_dashboard.api import base

from nova_vgpu import exception
from nova_vgpu.cloud import reader
from nova_vgpu.cloud import service_errors

_SERVICES = ('compute', 'identity', 'placement')
# In seconds, for each request: a service that hangs shall not stop Horizon.
_TIMEOUT = 60.0


class _UserToken(token_endpoint.Token):
    """The token of the user; a service that refuses it ends the request."""

    def invalidate(self) -> bool:
        """Called by keystoneauth after an answer 401, of any service.

        :raises NotAuthenticated: which Horizon's middleware turns into the
            login page.
        """
        raise exceptions.NotAuthenticated


def connect(request: http.HttpRequest) -> reader.Cloud:
    """The cloud as the user of a request may read it.

    Placement is asked for its versions.

    :raises CloudError: if it does not answer, or a service is not in the
        user's region.
    :raises NotAuthenticated: here and later, if the token has expired.
    """
    urls = {service: _find_url(request, service) for service in _SERVICES}
    session = ksa_session.Session(
        auth=_UserToken(urls['identity'], request.user.token.id),
        original_ip=auth_utils.get_client_ip(request),
        verify=_choose_verification(),
        timeout=_TIMEOUT,
    )
    overrides: dict[str, typing.Any] = {
        f'{service}_endpoint_override': url for service, url in urls.items()
    }
    made = sdk_connection.Connection(
        session=session,
        region_name=request.user.services_region,
        app_name='nova-vgpu-dashboard',
        **overrides,
    )
    with service_errors.explain('Placement', 'tell its versions'):
        return reader.Cloud(made)


def _find_url(request: http.HttpRequest, service: str) -> str:
    try:
        url: str = base.url_for(request, service)
    except exceptions.ServiceCatalogException as error:
        raise exception.CloudError(
            f'The catalog has no endpoint of the service {service} in region '
            f'{request.user.services_region}. Add one with "openstack '
            'endpoint create", or choose another region.'
        ) from error
    return url


def _choose_verification() -> bool | str:
    """What keystoneauth checks certificates of TLS with."""
    if settings.OPENSTACK_SSL_NO_VERIFY:
        return False
    return settings.OPENSTACK_SSL_CACERT or True
