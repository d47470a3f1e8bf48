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

"""The name of this host."""

import socket


def get_node_name() -> str:
    """The name that libvirt gives to this host, and Nova to its provider.

    The host's own name if it is fully qualified, else the one that the
    resolver gives, as libvirt does it (virGetHostname).
    """
    name = socket.gethostname()
    if '.' in name or name.startswith('localhost'):
        return name
    try:
        found = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)
    except OSError:
        return name
    canonical = found[0][3]
    if not canonical or canonical.startswith('localhost'):
        return name
    return canonical
