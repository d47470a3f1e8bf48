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

"""Images in Glance: the properties that a server with a GPU needs.

Nova takes the firmware and the machine type of a server from its image, and
has no extra spec of a flavor for either.
"""

from collections.abc import Mapping
import dataclasses
import re
import typing
import uuid

from openstack import connection as sdk_connection
from openstack import exceptions as sdk_exceptions

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu.cloud import service_errors

FIRMWARE = 'hw_firmware_type'
MACHINE = 'hw_machine_type'
_MACHINE = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,63}')


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """An image, with what of it concerns GPUs."""

    id: str
    name: str
    firmware: str | None = None
    machine: str | None = None

    @property
    def properties(self) -> dict[str, str | None]:
        return {FIRMWARE: self.firmware, MACHINE: self.machine}


def plan_properties(image: Image, wanted: Mapping[str, str]) -> dict[str, str]:
    """The properties that have to be set."""
    there = image.properties
    return {
        name: value for name, value in wanted.items() if there[name] != value
    }


def require_machine(text: str) -> None:
    """Check that it can be a machine type; hosts decide which they have.

    :raises UsageError: if it cannot.
    """
    if not _MACHINE.fullmatch(text):
        raise exception.UsageError(
            f'--machine {names.printable(text)} is not a machine type, such '
            'as q35.'
        )


class ImageStore:
    """The images of a cloud, with the permissions of one account."""

    def __init__(self, connection: sdk_connection.Connection) -> None:
        # Its type has version 1 of the API as well.
        self._images: typing.Any = connection.image

    def find(self, wanted: str) -> Image:
        """The image of an id or a name.

        :raises NotInCloud: if there is none, or more than one.
        :raises CloudError: if Glance refuses or does not answer.
        """
        shown = names.printable(wanted)
        with service_errors.explain('Glance', f'show image {shown}'):
            found = self._find_by_id(wanted) or self._find_by_name(wanted)
        if not found:
            raise exception.NotInCloud(
                f'Glance has no image {shown} that this account can see.'
            )
        if len(found) > 1:
            ids = ', '.join(sorted(image.id for image in found))
            raise exception.NotInCloud(
                f'More than one image has the name {shown}: {ids}. Give the '
                'ID.'
            )
        return _make_image(found[0])

    def set(self, image: Image, properties: Mapping[str, str]) -> None:
        """Set properties; the others stay.

        :raises CloudError: if Glance refuses or does not answer.
        """
        what = f'change image {image.name} ({image.id})'
        with service_errors.explain('Glance', what):
            self._images.update_image(image.id, **properties)

    def _find_by_id(self, wanted: str) -> list[typing.Any]:
        try:
            return [self._images.get_image(str(uuid.UUID(wanted)))]
        except (ValueError, sdk_exceptions.NotFoundException):
            return []

    def _find_by_name(self, wanted: str) -> list[typing.Any]:
        if not names.is_text(wanted):
            return []
        return [
            image
            for image in self._images.images(name=wanted)
            if image.name == wanted
        ]


def _make_image(found: typing.Any) -> Image:
    return Image(
        found.id,
        names.printable(found.name or ''),
        (found.properties or {}).get(FIRMWARE),
        # openstacksdk has a field for this one.
        found.hw_machine_type,
    )
