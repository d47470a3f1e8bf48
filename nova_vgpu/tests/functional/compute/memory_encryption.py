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

"""A host with AMD SEV, beside its GPUs.

From Nova 32 on, the contexts of encrypted memory are the inventory of a
provider below the node; Nova 31 has them in the inventory of the node.
"""

import typing

import fixtures
from nova.virt.libvirt import driver as libvirt_driver

TOTAL = 5
_CHILD = '_get_memory_encryption_inventories'
_HAS_PROVIDER = hasattr(libvirt_driver.LibvirtDriver, _CHILD)


def provider_name(node: str) -> str:
    """The provider that has the contexts."""
    return f'{node}_amd_sev' if _HAS_PROVIDER else node


class HostWithSEV(fixtures.Fixture):
    """What Nova's driver finds on such a host."""

    def _setUp(self) -> None:
        name, found = (
            (_CHILD, _list_inventories)
            if _HAS_PROVIDER
            else ('_get_memory_encrypted_slots', lambda _driver: TOTAL)
        )
        self.useFixture(
            fixtures.MockPatchObject(libvirt_driver.LibvirtDriver, name, found)
        )


def _list_inventories(_driver: object) -> dict[str, dict[str, typing.Any]]:
    return {
        'amd_sev': {
            'total': TOTAL,
            'reserved': 0,
            'min_unit': 1,
            'max_unit': 1,
            'step_size': 1,
            'allocation_ratio': 1.0,
            'traits': ['HW_CPU_X86_AMD_SEV'],
        }
    }
