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

"""What Horizon reads as its local settings, for the run in a browser."""

import json
import os
import pathlib

from openstack_dashboard.local import enabled as local_enabled

import nova_vgpu_dashboard

_directory = pathlib.Path(os.environ['NOVA_VGPU_HORIZON'])

DEBUG = False
ALLOWED_HOSTS = ['127.0.0.1']
SECRET_KEY = 'of a test'  # noqa: S105 - nothing is secret here
WEBROOT = '/'
OPENSTACK_KEYSTONE_URL = os.environ['NOVA_VGPU_IDENTITY']
# The first page of Horizon needs Neutron otherwise.
OPENSTACK_NEUTRON_NETWORK = {'enable_quotas': False}
SESSION_ENGINE = 'django.contrib.sessions.backends.cache'
CACHES = {
    'default': {'BACKEND': 'django.core.cache.backends.locmem.LocMemCache'}
}
STATIC_ROOT = str(_directory / 'static')
COMPRESS_OFFLINE = True
LOGGING = {
    'version': 1,
    'disable_existing_loggers': False,
    'handlers': {'console': {'class': 'logging.StreamHandler'}},
    'root': {'handlers': ['console'], 'level': 'INFO'},
}
if _prometheus := os.environ.get('NOVA_VGPU_PROMETHEUS'):
    NOVA_VGPU_PROMETHEUS = json.loads(_prometheus)
# In place of a copy of our files in Horizon's directory.
local_enabled.__path__.append(
    str(pathlib.Path(nova_vgpu_dashboard.__path__[0]) / 'enabled')
)
