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

"""The vendors, one module each.

Every module of this package whose name does not start with an underscore is a
vendor: adding one means adding a module, and nothing else.
"""

import functools
import importlib
import pkgutil

from nova_vgpu.knowledge import vendor

# Base classes of PCI: VGA, 3D and other display controllers; AMD Instinct.
_DISPLAY_CONTROLLER = 0x03
_PROCESSING_ACCELERATOR = 0x12


@functools.cache
def list_vendors() -> tuple[vendor.Vendor, ...]:
    """Every vendor with a module, in order of module name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = (
        importlib.import_module(f'{__name__}.{name}')
        for name in names
        if not name.startswith('_')
    )
    return tuple(module.VENDOR for module in modules)


def get_by_pci_id(pci_id: int) -> vendor.Vendor | None:
    return next((v for v in list_vendors() if v.pci_id == pci_id), None)


def get_by_type_id(type_id: str) -> vendor.Vendor | None:
    """The vendor whose driver uses ids like this one."""
    prefix, hyphen, _ = type_id.casefold().partition('-')
    if not hyphen:
        return None
    return next((v for v in list_vendors() if prefix in v.type_prefixes), None)


def is_gpu(vendor_id: int, pci_class: int) -> bool:
    """Whether a PCI function is a GPU of a known vendor."""
    return get_by_pci_id(vendor_id) is not None and (
        pci_class >> 16 in (_DISPLAY_CONTROLLER, _PROCESSING_ACCELERATOR)
    )
