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

"""Keystone in a process of its own.

``python -m nova_vgpu.tests.cloud.keystone_service`` takes what
:mod:`nova_vgpu.tests.cloud.serving` explains.
"""

import pathlib
import typing
from unittest import mock
import uuid

from cryptography import fernet

from nova_vgpu.tests.cloud import accounts
from nova_vgpu.tests.cloud import serving

#: The services of the catalog, by their types.
_NAMES = {'compute': 'nova', 'placement': 'placement', 'image': 'glance'}
_CONFIGURATION = """\
[database]
connection = sqlite:///{directory}/keystone.sqlite
sqlite_synchronous = False
[fernet_tokens]
key_repository = {directory}/keys
[fernet_receipts]
key_repository = {directory}/keys
[identity]
# The least that there can be: nothing here is secret.
password_hash_rounds = 4
[cache]
enabled = True
backend = dogpile.cache.memory
"""


def load(directory: pathlib.Path, urls: dict[str, str]) -> typing.Any:
    """The application, with accounts and a catalog."""
    (directory / 'keys').mkdir(mode=0o700)
    for number in ('0', '1'):
        key = directory / 'keys' / number
        key.write_bytes(fernet.Fernet.generate_key())
    config = directory / 'keystone.conf'
    config.write_text(_CONFIGURATION.format(directory=directory))
    serving.set_environment(OS_KEYSTONE_CONFIG_FILES=str(config))
    from keystone.common import sql
    from keystone.wsgi import api
    from oslo_db.sqlalchemy import enginefacade  # type: ignore[import-untyped]

    # All models are imported with the application.
    sql.ModelBase.metadata.create_all(bind=enginefacade.writer.get_engine())
    _fill(urls)
    return api.application


def _fill(urls: dict[str, str]) -> None:
    from keystone.cmd import bootstrap
    from keystone.common import provider_api

    # They are loaded with the application, and cannot be twice.
    with mock.patch.object(bootstrap.backends, 'load_backends'):
        made = bootstrap.Bootstrapper()
    made.admin_username = made.admin_password = accounts.ADMIN
    made.project_name = made.admin_role_name = accounts.ADMIN
    made.service_name = 'keystone'
    made.region_id = accounts.REGION
    made.public_url = made.internal_url = made.admin_url = urls['identity']
    made.bootstrap()
    apis = provider_api.ProviderAPIs
    for name, identity in accounts.PROJECTS.items():
        described = {
            'id': identity,
            'name': name,
            'domain_id': 'default',
            'enabled': True,
        }
        apis.resource_api.create_project(identity, described)
    for user, project, roles in (
        *(
            (name, 'service', (made.admin_role_id, made.service_role_id))
            for name in accounts.SERVICES
        ),
        (accounts.USER, accounts.USER_PROJECT, (made.member_role_id,)),
    ):
        created = apis.identity_api.create_user(
            {
                'name': user,
                'password': user,
                'domain_id': 'default',
                'enabled': True,
            }
        )
        for role in roles:
            apis.assignment_api.add_role_to_user_and_project(
                created['id'], accounts.PROJECTS[project], role
            )
    for kind, name in _NAMES.items():
        if kind in urls:
            _register(apis.catalog_api, kind, name, urls[kind])


def _register(catalog: typing.Any, kind: str, name: str, url: str) -> None:
    service = uuid.uuid4().hex
    described = {'id': service, 'type': kind, 'name': name, 'enabled': True}
    catalog.create_service(service, described)
    for interface in ('public', 'internal'):
        endpoint = uuid.uuid4().hex
        described = {
            'id': endpoint,
            'region_id': accounts.REGION,
            'service_id': service,
            'interface': interface,
            'url': url,
            'enabled': True,
        }
        catalog.create_endpoint(endpoint, described)


if __name__ == '__main__':
    serving.main(load)
