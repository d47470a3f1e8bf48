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

"""What a destination of a live migration tells the source about its GPUs.

Nova asks the destination first, whose answer goes to the source; that compares
and answers the destination. The answer has no field for what the types of the
destination are called, so it goes along in ``target_mdevs``, which is empty
until the destination has chosen vGPUs. A source that does not know it, such as
Nova's own driver or an older version of this one, hands it back as it is, and
the destination takes it out before Nova looks at the field.
"""

from collections.abc import Mapping
import dataclasses
import json
import typing

from nova_vgpu import values

#: In the place of the UUID of an mdev.
_KEY = 'nova-vgpu'
_VERSION = 1


class MigrateData(typing.Protocol):
    """``nova.objects.LibvirtLiveMigrateData``."""

    source_mdev_types: Mapping[str, str]
    target_mdevs: dict[str, str]
    pci_dev_map_src_dst: dict[str, str]

    def __contains__(self, field: str) -> bool: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """A type that a GPU serves; ``label`` is what Nova compares.

    ``name`` is its short name, None if it is not known.
    """

    gpu: str
    label: str
    name: str | None = None
    framework: values.Framework | None = None
    ecc: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """What the GPUs of a destination serve."""

    host: str
    served: tuple[Served, ...] = ()


def add(data: MigrateData, offer: Offer) -> None:
    """Let the offer go to the source."""
    served = [
        [
            each.gpu,
            each.label,
            each.name,
            each.framework.value if each.framework else None,
            each.ecc,
        ]
        for each in offer.served
    ]
    content = {'version': _VERSION, 'host': offer.host, 'served': served}
    data.target_mdevs = {_KEY: json.dumps(content)}


def find(data: MigrateData) -> Offer | None:
    """The offer; None if the destination made none that is understood."""
    text = data.target_mdevs.get(_KEY) if 'target_mdevs' in data else None
    if text is None:
        return None
    try:
        content = json.loads(text)
        if content['version'] != _VERSION:
            return None
        return Offer(
            str(content['host']),
            tuple(_parse(*each) for each in content['served']),
        )
    except (ValueError, TypeError, LookupError):
        return None


def _parse(
    gpu: str,
    label: str,
    name: str | None,
    framework: str | None,
    ecc: bool | None,
) -> Served:
    known = values.Framework(framework) if framework else None
    return Served(gpu, label, name, known, ecc)


def remove(data: MigrateData) -> None:
    """Leave the field as Nova expects it."""
    if 'target_mdevs' in data and _KEY in data.target_mdevs:
        del data.target_mdevs
