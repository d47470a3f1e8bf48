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

"""``openstack vgpu flavor``: flavors that ask for vGPUs or whole GPUs."""

import argparse

from cliff import columns
from cliff import lister
from cliff import show

from nova_vgpu.cloud.gpus import type_choice
from nova_vgpu.cloud.orders import flavor_creation
from nova_vgpu.cloud.orders import flavor_listing
from nova_vgpu.cloud.orders import flavor_order
from nova_vgpu.cloud.orders import flavor_store
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.osc import base

Listed = tuple[flavor_listing.VGPUFlavor, flavor_listing.Room]

_FIELDS: tuple[base.Field[Listed], ...] = (
    base.Field('Flavor', lambda row: row[0].flavor.name),
    base.Field('Types', lambda row: base.Words(row[0].types)),
    base.Field('vGPUs', lambda row: row[0].vgpus),
    base.Field('Passthrough', lambda row: base.Words(row[0].models)),
    base.Field('GPUs', lambda row: row[0].gpus),
    base.Field('More Servers', lambda row: row[1].servers),
    base.Field('vCPUs', lambda row: row[0].flavor.size.vcpus, True),
    base.Field('RAM', lambda row: row[0].flavor.size.ram_mib, True),
    base.Field('Disk', lambda row: row[0].flavor.size.disk_gib, True),
    base.Field(
        'Resource Classes',
        lambda row: base.Words(row[0].resource_classes),
        True,
    ),
    base.Field(
        'Group Policy', lambda row: base.Known(row[0].flavor.policy), True
    ),
    base.Field('Public', lambda row: row[0].flavor.is_public, True),
    base.Field('ID', lambda row: row[0].flavor.id, True),
)


class Specs(columns.FormattableColumn[dict[str, str]]):
    """Extra specs: one per line for people, an object for machines."""

    def human_readable(self) -> str:
        return '\n'.join(f'{key}={text}' for key, text in self._value.items())

    def machine_readable(self) -> dict[str, str]:
        return self._value


class CreateFlavor(base.Command, show.ShowOne):
    """Create a flavor whose servers get vGPUs of a type, or whole GPUs.

    The same command again changes nothing. A flavor of this name that has
    other extra specs is changed if no server uses it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'name', metavar='<name>', help='Name of the flavor.'
        )
        _add_vgpu_options(parser)
        _add_size_options(parser)
        parser.add_argument(
            '--private',
            action='store_true',
            help='For administrators, and for projects that get access with '
            '"openstack flavor set --project".',
        )
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Show the flavor, and change nothing.',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], base.Row]:
        request = _make_request(parsed_args)
        outcome = flavor_creation.ensure_flavor(
            self.cloud,
            flavor_store.FlavorStore(self.cloud.connection),
            request,
            parsed_args.dry_run,
        )
        for warning in outcome.warnings:
            print(warning, file=self.app.stderr)
        flavor, size = outcome.flavor, outcome.flavor.size
        served, is_whole = outcome.served.name, request.type is None
        fields = {
            'name': flavor.name,
            'id': base.Known(flavor.id or None),
            'result': outcome.change.result.value,
            'dry_run': parsed_args.dry_run,
            'type': base.Known(None if is_whole else served),
            'vgpus': 0 if is_whole else request.count,
            'passthrough': base.Known(served if is_whole else None),
            'gpus': request.count if is_whole else 0,
            'vcpus': size.vcpus,
            'ram_mib': size.ram_mib,
            'disk_gib': size.disk_gib,
            'ephemeral_gib': size.ephemeral_gib,
            'swap_mib': size.swap_mib,
            'is_public': flavor.is_public,
            'extra_specs': Specs(dict(flavor.extra_specs)),
            'removed_extra_specs': base.Words(outcome.change.to_remove),
        }
        return tuple(fields), tuple(fields.values())


class ListFlavors(base.Command, lister.Lister):
    """List the flavors that ask for GPUs, and what of them still fits.

    "Types" are those that servers can get, "vGPUs" how many of them each gets.
    "Passthrough" are the models of whole GPUs, "GPUs" how many each gets.
    "More Servers" is how many more servers fit now, by what Placement has
    left of processors, memory, disk and GPUs.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--type',
            metavar='<type>',
            help='Only flavors whose servers can get this type.',
        )
        parser.add_argument(
            '--long', action='store_true', help='List additional columns.'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        gpus = self.cloud.list_gpus()
        found = flavor_listing.list_vgpu_flavors(
            self.cloud.list_flavors(), gpus
        )
        if parsed_args.type is not None:
            trait = type_choice.find_trait(gpus, parsed_args.type)
            found = flavor_listing.select(found, gpus, trait)
        rows = [
            (each, flavor_listing.count_room(self.cloud, each.flavor))
            for each in found
        ]
        for each, room in rows:
            if room.refusal is not None:
                print(
                    f'No server with flavor {each.flavor.name} can be built: '
                    f'{room.refusal}',
                    file=self.app.stderr,
                )
        return base.make_rows(_FIELDS, rows, parsed_args.long)


def _make_request(
    parsed_args: argparse.Namespace,
) -> flavor_creation.FlavorRequest:
    return flavor_creation.FlavorRequest(
        parsed_args.name,
        parsed_args.type,
        flavors.Size(
            parsed_args.vcpus,
            parsed_args.ram,
            parsed_args.disk,
            parsed_args.ephemeral,
            parsed_args.swap,
        ),
        parsed_args.count,
        flavor_order.Policy(parsed_args.policy)
        if parsed_args.policy
        else None,
        parsed_args.resource_class,
        parsed_args.page_size,
        not parsed_args.private,
        parsed_args.passthrough,
    )


def _add_vgpu_options(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument(
        '--type',
        metavar='<type>',
        help='vGPU type, for example A40-8Q.',
    )
    kinds.add_argument(
        '--passthrough',
        metavar='<model>',
        help='Model of whole GPUs, for example A40, or their PCI ids, for '
        'example 10de:20b5.',
    )
    parser.add_argument(
        '--count',
        metavar='<number>',
        type=int,
        default=1,
        help='Number of vGPUs, or of whole GPUs, for each server (default: '
        '1).',
    )
    parser.add_argument(
        '--policy',
        choices=[policy.value for policy in flavor_order.Policy],
        help='Which GPUs of a host several vGPUs are of (default: '
        f'{flavor_order.DEFAULT_POLICY.value}).',
    )
    parser.add_argument(
        '--resource-class',
        metavar='<class>',
        help='Resource class, if GPUs serve the type with several.',
    )
    parser.add_argument(
        '--page-size',
        metavar='<size>',
        help='Size of the memory pages: large, small, any, or for example '
        '1GB. The memory is locked, too. Needs the NUMATopologyFilter in the '
        'scheduler.',
    )


def _add_size_options(parser: argparse.ArgumentParser) -> None:
    for option, metavar, text in (
        ('--vcpus', '<number>', 'Number of vCPUs.'),
        ('--ram', '<MiB>', 'Memory in MiB.'),
        ('--disk', '<GiB>', 'Root disk in GiB; 0 for that of the image.'),
    ):
        parser.add_argument(
            option, metavar=metavar, type=int, required=True, help=text
        )
    for option, metavar, text in (
        ('--ephemeral', '<GiB>', 'Ephemeral disk in GiB (default: 0).'),
        ('--swap', '<MiB>', 'Swap in MiB (default: 0).'),
    ):
        parser.add_argument(
            option, metavar=metavar, type=int, default=0, help=text
        )
