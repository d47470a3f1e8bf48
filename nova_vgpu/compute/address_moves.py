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

"""In which order devices get the addresses of the host that they move to."""

from collections.abc import Iterator
from collections.abc import Mapping


def order_moves(moves: Mapping[str, str]) -> dict[str, str]:
    """Order the new addresses of PCI devices that migrate with their guest.

    Nova replaces addresses in the XML of the guest one after another, each in
    the first device that has it by then. A device whose new address is the old
    one of another device would be taken for that one, and vGPUs of two types
    be exchanged. So an address is given to a device after the device that had
    it has left it. Where each waits for another, one goes by an address that
    no device has.

    :param moves: new addresses by old ones; no two are equal.
    """
    left, ordered = dict(moves), dict[str, str]()
    spare = _list_spare(moves)
    while left:
        free = [old for old, new in left.items() if new not in left]
        stays = [old for old, new in left.items() if new == old]
        if free or stays:
            old = (free or stays)[0]
            ordered[old] = left.pop(old)
        else:
            old = next(iter(left))
            aside = next(spare)
            ordered[old] = aside
            left[aside] = left.pop(old)
    return ordered


def _list_spare(moves: Mapping[str, str]) -> Iterator[str]:
    """Addresses that none of the devices has, before or after."""
    taken = {*moves, *moves.values()}
    for slot in range(0x1F, -1, -1):
        for function in range(8):
            address = f'ffff:ff:{slot:02x}.{function}'
            if address not in taken:
                yield address
