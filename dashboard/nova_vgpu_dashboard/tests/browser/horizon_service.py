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

"""Horizon with these pages, in a process of its own.

``python -m nova_vgpu_dashboard.tests.browser.horizon_service`` takes what
:mod:`nova_vgpu.tests.cloud.serving` explains.
"""

import pathlib
import sys
import typing

from nova_vgpu.tests.cloud import serving

_SETTINGS = pathlib.Path(__file__).parent / 'settings'


def load(directory: pathlib.Path, urls: dict[str, str]) -> typing.Any:
    """The application, with its static files collected and compressed."""
    own = directory / 'horizon'
    own.mkdir()
    serving.set_environment(
        NOVA_VGPU_HORIZON=str(own),
        NOVA_VGPU_IDENTITY=urls['identity'],
        DJANGO_SETTINGS_MODULE='openstack_dashboard.settings',
    )
    sys.path.insert(0, str(_SETTINGS))
    from django.core import management
    from openstack_dashboard import wsgi
    from openstack_dashboard.api import microversions
    import whitenoise

    # There is no Neutron: up to 2.36, Nova takes an order without networks.
    # No version has all that Horizon wants then, so it orders with the oldest.
    features = microversions.MICROVERSION_FEATURES['nova']
    features['auto_allocated_network'] = ['2.36']
    management.call_command('collectstatic', interactive=False, verbosity=0)
    management.call_command('compress', force=True, verbosity=0)
    return whitenoise.WhiteNoise(
        wsgi.application, root=str(own / 'static'), prefix='static/'
    )


if __name__ == '__main__':
    serving.main(load)
