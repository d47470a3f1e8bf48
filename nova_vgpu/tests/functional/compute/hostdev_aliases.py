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

"""The aliases of host devices in the XML of a guest.

libvirt keeps an alias that a user gave and makes up the others. Nova's fake
guest keeps none: Nova 31's writes no alias, that of later releases writes
``hostdevN`` for a PCI device and none for an mdev.
"""

from collections.abc import Iterable
import re
import typing

_HOSTDEV = re.compile('<hostdev .*?</hostdev>', re.DOTALL)
_ALIAS = re.compile("<alias name='[^']*'/>")


def keep(xml: str, hostdevs: Iterable[dict[str, typing.Any]]) -> str:
    """Put the aliases that users gave into a guest's XML.

    :param hostdevs: the guest's host devices, in the order of its XML.
    """
    left = iter(hostdevs)
    return _HOSTDEV.sub(
        lambda found: _keep_one(found[0], next(left).get('alias') or ''), xml
    )


def _keep_one(element: str, alias: str) -> str:
    if not alias.startswith('ua-'):
        return element
    return _ALIAS.sub('', element).replace(
        '</source>', f"</source><alias name='{alias}'/>", 1
    )
