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

"""Placement in a process of its own, with authentication by Keystone.

``python -m nova_vgpu.tests.cloud.placement_service`` takes what
:mod:`nova_vgpu.tests.cloud.serving` explains.
"""

import pathlib
import typing

from nova_vgpu.tests.cloud import serving

_CONFIGURATION = """\
[api]
auth_strategy = keystone
[placement_database]
connection = sqlite:///{directory}/placement.sqlite
sqlite_synchronous = False
sync_on_startup = True
[keystone_authtoken]
{credentials}
"""


def load(directory: pathlib.Path, urls: dict[str, str]) -> typing.Any:
    config = directory / 'placement'
    config.mkdir()
    (config / 'placement.conf').write_text(
        _CONFIGURATION.format(
            directory=directory,
            credentials=serving.credentials('placement', urls['identity']),
        )
    )
    serving.set_environment(OS_PLACEMENT_CONFIG_DIR=str(config))
    from placement.wsgi import api

    return api.application


if __name__ == '__main__':
    serving.main(load)
