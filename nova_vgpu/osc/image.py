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

"""``openstack vgpu image``: images for servers with GPUs."""

import argparse

from cliff import show

from nova_vgpu.cloud.orders import image_store
from nova_vgpu.osc import base

_DEFAULTS = {image_store.FIRMWARE: 'uefi', image_store.MACHINE: 'q35'}


class SetImage(base.Command, show.ShowOne):
    """Set the properties of an image that its servers need for a GPU.

    Without options, that is UEFI as firmware and q35 as machine type. All
    other properties stay, and so do the servers that exist.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'image', metavar='<image>', help='Name or ID of the image.'
        )
        parser.add_argument(
            '--firmware',
            choices=('uefi', 'bios'),
            help='Firmware of servers: the system in the image has to be '
            'installed for it.',
        )
        parser.add_argument(
            '--machine',
            metavar='<type>',
            help='Machine type of servers, for example q35.',
        )
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Show the properties, and change nothing.',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], base.Row]:
        wanted = _choose(parsed_args)
        store = image_store.ImageStore(self.cloud.connection)
        image = store.find(parsed_args.image)
        changes = image_store.plan_properties(image, wanted)
        if changes and not parsed_args.dry_run:
            store.set(image, changes)
        fields = {
            'name': image.name,
            'id': image.id,
            'result': 'updated' if changes else 'unchanged',
            'dry_run': parsed_args.dry_run,
        } | {
            name: base.Known(value)
            for name, value in (image.properties | changes).items()
        }
        return tuple(fields), tuple(fields.values())


def _choose(parsed_args: argparse.Namespace) -> dict[str, str]:
    """The properties that are asked for; all of them if none is."""
    given = {
        image_store.FIRMWARE: parsed_args.firmware,
        image_store.MACHINE: parsed_args.machine,
    }
    if parsed_args.machine is not None:
        image_store.require_machine(parsed_args.machine)
    return {k: v for k, v in given.items() if v is not None} or _DEFAULTS
