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

"""Whether Nova's tests run with native threads or with eventlet.

An environment variable says so to every release, but not at the same time:
Nova 31 reads it when ``nova.monkey_patch`` is imported, later releases when
``patch`` is called. Either has to be done before anything else of Nova is
imported.
"""

import os

_VARIABLE = 'OS_NOVA_DISABLE_EVENTLET_PATCHING'


def is_native() -> bool:
    """Whether Nova runs with native threads."""
    return os.environ[_VARIABLE].lower() in ('1', 'true', 'yes')


def choose() -> None:
    """Native threads, unless the environment variable says otherwise."""
    os.environ.setdefault(_VARIABLE, '1')
    from nova import monkey_patch

    if hasattr(monkey_patch, 'patch'):
        monkey_patch.patch()
