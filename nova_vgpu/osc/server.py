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

"""``openstack vgpu server``: the servers with vGPUs."""

import argparse
from collections.abc import Sequence
import dataclasses
import datetime
import typing

from cliff import columns
from cliff import lister
from cliff import show

from nova_vgpu import values
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.usage import guest_states
from nova_vgpu.cloud.usage import reasons
from nova_vgpu.cloud.usage import server_details
from nova_vgpu.cloud.usage import server_reader
from nova_vgpu.cloud.usage import servers
from nova_vgpu.osc import agents
from nova_vgpu.osc import base

_Field = base.Field[servers.VGPUUser]
_SERVER: tuple[_Field, ...] = (
    base.Field('Server', lambda user: base.Known(user.name)),
    base.Field('Project', lambda user: base.Known(user.project_name)),
)
_VGPUS: tuple[_Field, ...] = (
    base.Field('Type', lambda user: base.Known(user.type)),
    base.Field('vGPUs', lambda user: user.vgpus),
)
_BY_FLAVOR: tuple[_Field, ...] = (
    *_SERVER,
    base.Field('Flavor', lambda user: base.Known(user.flavor)),
    *_VGPUS,
)
_BY_GPU: tuple[_Field, ...] = (
    *_SERVER,
    base.Field('Host', lambda user: user.gpu and user.gpu.host),
    base.Field('GPU', lambda user: user.gpu and user.gpu.address),
    *_VGPUS,
    base.Field('Flavor', lambda user: base.Known(user.flavor), True),
    base.Field('Resource Class', lambda user: user.resource_class, True),
    base.Field('Server ID', lambda user: user.uuid, True),
    base.Field('Project ID', lambda user: base.Known(user.project), True),
    base.Field('Provider ID', lambda user: user.gpu and user.gpu.uuid, True),
)


def _make_guest_fields(answer: host_agents.Answer) -> tuple[_Field, ...]:
    guests = answer.list_guests()

    def find(user: servers.VGPUUser) -> guest_states.GuestState:
        return guest_states.summarise(guests.get(user.uuid, ()))

    return (
        base.Field('Driver', lambda user: base.Known(find(user).driver)),
        base.Field('Licence', lambda user: base.Known(find(user).licence)),
    )


class ListServers(base.Command, lister.Lister):
    """List the servers that have vGPUs.

    Without options, they are listed with what their flavors ask for; "several"
    is a flavor that fits more than one type. With --long, --host or --type,
    Placement is asked which GPUs they have, by one request for each GPU that
    is in use: a server with vGPUs of several GPUs then has a row for each. An
    allocation that is not that of a running server has no name: the server is
    being built or moved, or the allocation was left over.

    Where the cloud has the setting nova_vgpu_prometheus, the list has the
    driver and the licence of each guest, as the agents of the hosts tell.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--host',
            metavar='<host>',
            help='Only servers on this compute node, with or without its '
            'domain. Shows the GPUs.',
        )
        parser.add_argument(
            '--project',
            metavar='<project>',
            help='Only servers of this project (name or ID).',
        )
        parser.add_argument(
            '--type',
            metavar='<type>',
            help='Only servers with vGPUs of this type, for example A40-8Q. '
            'Shows the GPUs.',
        )
        parser.add_argument(
            '--long', action='store_true', help='List additional columns.'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        now = datetime.datetime.now(datetime.UTC)
        project, is_long = parsed_args.project, parsed_args.long
        wanted = parsed_args.host, parsed_args.type
        is_by_flavor = not is_long and wanted == (None, None)
        if is_by_flavor:
            found = server_reader.list_by_flavor(self.cloud, now, project)
        else:
            found = server_reader.list_by_gpu(
                self.cloud, now, project, *wanted
            )
        base.tell_if_none(self, found.has_gpus)
        base.tell_unknown(
            self, found.unknown, '--long lists them if they have vGPUs.'
        )
        fields = _BY_FLAVOR if is_by_flavor else _BY_GPU
        answer = agents.read_guests(self.app)
        if answer.is_configured:
            fields = (*fields, *_make_guest_fields(answer))
        return base.make_rows(fields, found.users, is_long)


class Asked(columns.FormattableColumn[server_details.Details]):
    """What is asked for: words for people, resources for machines."""

    def human_readable(self) -> str:
        return '-' if self._value.wanted is None else self._value.words

    def machine_readable(self) -> typing.Any:
        return self._value.wanted


class GPUs(columns.FormattableColumn[Sequence[servers.Allocation] | None]):
    """The GPUs: a few lines each for people; None if that is not known."""

    def human_readable(self) -> str:
        if self._value is None:
            return '-'
        return '\n'.join(map(_describe, self._value)) or 'none'

    def machine_readable(self) -> typing.Any:
        if self._value is None:
            return None
        return [_encode(held) for held in self._value]


class Reasons(columns.FormattableColumn[Sequence[reasons.Reason]]):
    """The reasons, with what to do."""

    def human_readable(self) -> str:
        return '\n'.join(
            values.describe(each.text, (), each.cure) for each in self._value
        )

    def machine_readable(self) -> typing.Any:
        return [
            {
                'code': each.code.value,
                'state': each.state.value,
                'text': each.text,
                'cure': each.cure,
            }
            for each in self._value
        ]


class Checks(columns.FormattableColumn[Sequence[server_details.Check]]):
    """Where to look further."""

    def human_readable(self) -> str:
        return '\n'.join(
            f'{each.what} ({each.where}): {each.command}'
            for each in self._value
        )

    def machine_readable(self) -> typing.Any:
        return [dataclasses.asdict(each) for each in self._value]


class ShowServer(base.Command, show.ShowOne):
    """Show what GPUs a server asks for, what it got, and whether it is ready.

    "asks_for" is its flavor as it was when the server got it, "gpus" what
    Placement has allocated to it. "state" is "ready" if the server runs and
    has what it asks for, "failed" if it does not have it; "reasons" say why,
    and what to do. Only administrators are told the GPUs.

    Whether the guest has a driver and a licence is known where the cloud has
    the setting nova_vgpu_prometheus and the guest has told its host.
    "not_known" has the commands that tell the rest.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'server',
            metavar='<server>',
            help='Name or UUID of the server.',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], base.Row]:
        found = server_details.read(
            self.cloud,
            parsed_args.server,
            agents.read_guests(self.app).list_guests(),
        )
        server = found.server
        fields = {
            'name': server.name,
            'id': server.uuid,
            'project_id': server.project,
            'status': server.status,
            'task_state': base.Known(server.task),
            'host': base.Known(server.host),
            'flavor': server.flavor.name,
            'asks_for': Asked(found),
            'gpus': GPUs(found.held),
            'guest_driver': base.Known(found.guest.driver),
            'licence': base.Known(found.guest.licence),
            'state': found.judgement.state.value,
            'reasons': Reasons(found.judgement.why),
            'not_known': Checks(found.checks),
        }
        return tuple(fields), tuple(fields.values())


def _describe(held: servers.Allocation) -> str:
    facts = held.gpu.facts
    return (
        f'{held.gpu.host} {held.gpu.address}, '
        f'{facts.name or facts.model or "unknown type"}\n'
        f'  {held.resource_class}: {held.vgpus}'
    )


def _encode(held: servers.Allocation) -> dict[str, typing.Any]:
    gpu = held.gpu
    return {
        'host': gpu.host,
        'gpu': gpu.address,
        'type': gpu.facts.name,
        'model': gpu.facts.model,
        'resource_class': held.resource_class,
        'number': held.vgpus,
        'state': gpu.state.value,
        'provider': gpu.uuid,
    }
