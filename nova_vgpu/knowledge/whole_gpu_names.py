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

"""The names of whole GPUs that servers get by PCI passthrough.

The host and the flavor have to agree on them: ``[pci]device_spec`` gives a GPU
its resource class and traits, ``[pci]alias`` asks for the class, and a flavor
asks for the alias by its name. All three follow from the model, and the model
from the PCI ids alone: it must not depend on the driver that a GPU is bound to
at the moment. A model that is not known has the resource class that Nova gives
a PCI device by default.
"""

from collections.abc import Iterator
import dataclasses
import re

from nova_vgpu import values
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import vendors

#: PCI ids as operators write them: ``10de:20b5``.
_IDS = re.compile(r'([0-9a-f]{4}):([0-9a-f]{4})', re.IGNORECASE | re.ASCII)
_IDS_IN_ALIAS = re.compile(r'gpu-([0-9a-f]{4})-([0-9a-f]{4})')
_IDS_IN_CLASS = re.compile(r'CUSTOM_PCI_([0-9A-F]{4})_([0-9A-F]{4})')
_NOT_IN_ALIAS = re.compile(r'[^A-Za-z0-9._-]+')


@dataclasses.dataclass(frozen=True, slots=True)
class WholeGPUNames:
    """What a kind of whole GPU is called, in Nova and in Placement."""

    title: str
    alias: str
    resource_class: str


def parse_ids(text: str) -> values.PciIds | None:
    """Vendor and device id; None if the text is something else."""
    return _match_ids(_IDS, text.strip())


def name_ids(ids: values.PciIds) -> WholeGPUNames:
    """The names for GPUs with these PCI ids."""
    made_by = vendors.get_by_pci_id(ids.vendor)
    model = made_by.model_name(ids) if made_by else None
    # Not every model that is known has names of its own.
    if made_by and model and made_by.find_model(model):
        return _name_model(model)
    return WholeGPUNames(
        str(ids),
        f'gpu-{ids.vendor:04x}-{ids.device:04x}',
        # nova/compute/pci_placement_translator.py, get_resource_class
        f'CUSTOM_PCI_{ids.vendor:04X}_{ids.device:04X}',
    )


def find_names(text: str) -> WholeGPUNames | None:
    """The names for a model, or for PCI ids; None if neither is known."""
    ids = parse_ids(text)
    if ids is not None:
        return name_ids(ids)
    models = (made_by.find_model(text) for made_by in vendors.list_vendors())
    model = next((model for model in models if model), None)
    return _name_model(model) if model else None


def find_by_alias(alias: str) -> WholeGPUNames | None:
    """The names of the GPUs that an alias is for; None if it is not ours."""
    ids = _match_ids(_IDS_IN_ALIAS, alias)
    if ids is not None:
        found = name_ids(ids)
        return found if found.alias == alias else None
    return next((n for n in _list_names() if n.alias == alias), None)


def find_by_class(resource_class: str) -> WholeGPUNames | None:
    """The names of the GPUs of a resource class; None if it is not ours."""
    ids = _match_ids(_IDS_IN_CLASS, resource_class)
    if ids is not None:
        return name_ids(ids)
    return next(
        (n for n in _list_names() if n.resource_class == resource_class), None
    )


def list_models(ids: values.PciIds) -> tuple[str, ...]:
    """The models that share a vendor and device id."""
    made_by = vendors.get_by_pci_id(ids.vendor)
    return tuple(made_by.list_models(ids.device)) if made_by else ()


def traits_of(ids: values.PciIds) -> tuple[str, ...]:
    """The traits of the provider of a whole GPU with these PCI ids."""
    made_by = vendors.get_by_pci_id(ids.vendor)
    if made_by is None:
        return ()
    found = {traits.custom('GPU_VENDOR', made_by.name)}
    return tuple(sorted(found.union(made_by.whole_traits(ids))))


def make_alias(name: str) -> str:
    """A name for flavors, where commas and colons are separators."""
    return _NOT_IN_ALIAS.sub('-', name)


def _match_ids(pattern: re.Pattern[str], text: str) -> values.PciIds | None:
    match = pattern.fullmatch(text)
    if match is None:
        return None
    return values.PciIds(int(match[1], 16), int(match[2], 16))


def _list_names() -> Iterator[WholeGPUNames]:
    for made_by in vendors.list_vendors():
        yield from map(_name_model, made_by.list_models())


def _name_model(model: str) -> WholeGPUNames:
    return WholeGPUNames(
        model, make_alias(f'gpu-{model}'), traits.custom('GPU', model)
    )
