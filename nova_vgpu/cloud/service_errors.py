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

"""Errors of the cloud's services, said with what was asked of them."""

from collections.abc import Iterator
import contextlib

from keystoneauth1 import exceptions as ksa_exceptions
from openstack import exceptions as sdk_exceptions

from nova_vgpu import exception
from nova_vgpu.cloud import names


@contextlib.contextmanager
def explain(service: str, what: str) -> Iterator[None]:
    """Raise :class:`exception.CloudError` if a service does not do that."""
    try:
        yield
    except sdk_exceptions.ForbiddenException as error:
        # The details name the permission, as policy files do.
        reason = names.printable(str(error.details or error))
        raise exception.CloudError(
            f'{service} does not permit you to {what}: {reason}'
        ) from error
    except (
        sdk_exceptions.SDKException,
        ksa_exceptions.ClientException,
    ) as error:
        raise exception.CloudError(
            f'{service} did not {what}: {names.printable(str(error))}'
        ) from error
