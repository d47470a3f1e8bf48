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

"""Glance in a process of its own, for the properties of images.

``python -m nova_vgpu.tests.cloud.glance_service`` takes what
:mod:`nova_vgpu.tests.cloud.serving` explains.
"""

import pathlib
import shutil
import sysconfig
import typing

from nova_vgpu.tests.cloud import serving

_CONFIGURATION = """\
[DEFAULT]
node_staging_uri = file://{directory}/staging
worker_self_reference_url = http://127.0.0.1
[database]
connection = sqlite:///{directory}/glance.sqlite
sqlite_synchronous = False
[glance_store]
filesystem_store_datadir = {directory}/images
[paste_deploy]
flavor = keystone
[keystone_authtoken]
{credentials}
"""


def load(directory: pathlib.Path, urls: dict[str, str]) -> typing.Any:
    config = directory / 'glance'
    for made in (config, directory / 'images', directory / 'staging'):
        made.mkdir()
    (config / 'glance-api.conf').write_text(
        _CONFIGURATION.format(
            directory=directory,
            credentials=serving.credentials('glance', urls['identity']),
        )
    )
    # The wheel installs it with the environment's own files.
    data = pathlib.Path(sysconfig.get_path('data'), 'etc', 'glance')
    shutil.copy(data / 'glance-api-paste.ini', config)
    serving.set_environment(OS_GLANCE_CONFIG_DIR=str(config))
    from glance.db.sqlalchemy import models
    import sqlalchemy

    url = f'sqlite:///{directory}/glance.sqlite'
    models.BASE.metadata.create_all(sqlalchemy.create_engine(url))
    from glance.wsgi import api

    return api.application


if __name__ == '__main__':
    serving.main(load)
