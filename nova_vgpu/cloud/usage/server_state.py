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

"""Whether a server has the GPUs that it asks for, and if not, why.

As far as the cloud knows: Nova tells what was asked and how the server is,
and Placement what it has. Whether the device works is known to the host and
the guest only; what the guest has told its host is given.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.usage import allocation_checks
from nova_vgpu.cloud.usage import guest_states
from nova_vgpu.cloud.usage import nova_servers
from nova_vgpu.cloud.usage import reasons
from nova_vgpu.cloud.usage import servers

_AGAIN = 'Wait, and run this command again.'
#: Statuses in which a server stays, without running.
_STOPPED = {
    'PAUSED': 'unpause',
    'RESCUE': 'unrescue',
    'SHELVED': 'unshelve',
    'SHUTOFF': 'start',
    'SOFT_DELETED': 'restore',
    'SUSPENDED': 'resume',
}
#: In these, the flavor and the allocation can be of different moments.
_CHANGING = frozenset(
    (
        'HARD_REBOOT',
        'MIGRATING',
        'PASSWORD',
        'REBOOT',
        'REBUILD',
        'RESIZE',
        'REVERT_RESIZE',
    )
)


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What a server's state is, with all reasons, the most severe first."""

    why: tuple[reasons.Reason, ...]

    @property
    def state(self) -> reasons.State:
        return self.why[0].state


def judge(
    server: nova_servers.NovaServer,
    held: Sequence[servers.Allocation] | None,
    gpus: Iterable[fleet.GPU] = (),
    guests: Sequence[host_agents.Guest] = (),
) -> Judgement:
    """Decide on the state of a server.

    :param held: what it has of GPUs; None if the user may not ask.
    :param gpus: all that there are.
    :param guests: what its guest has told the host.
    """
    found = [*_judge_status(server), *_judge_gpus(server, held, gpus)]
    if server.status == 'ACTIVE':
        found += guest_states.judge(guests)
    if not found:
        found.append(
            reasons.Reason(
                reasons.Code.READY,
                reasons.State.READY,
                'The server runs, and Placement has given it the GPUs that '
                'its flavor asks for.',
            )
        )
    order = list(reasons.State)
    return Judgement(
        tuple(sorted(found, key=lambda each: order.index(each.state)))
    )


def _judge_gpus(
    server: nova_servers.NovaServer,
    held: Sequence[servers.Allocation] | None,
    gpus: Iterable[fleet.GPU],
) -> Iterator[reasons.Reason]:
    known = tuple(gpus)
    if not server.has_extra_specs:
        yield reasons.Reason(
            reasons.Code.FLAVOR_HIDDEN,
            reasons.State.UNKNOWN,
            'Nova does not tell you the extra specs of its flavor, so it is '
            'unknown whether it asks for GPUs.',
            'Let an administrator run this command.',
        )
    elif not allocation_checks.list_wanted(server.flavor, known):
        yield from allocation_checks.judge_unasked(server, held)
    elif held is None:
        yield reasons.Reason(
            reasons.Code.NOT_PERMITTED,
            reasons.State.UNKNOWN,
            'Placement does not tell you which GPUs the server has: it '
            'requires the role "admin" for that, by default.',
            'Let an administrator run this command.',
        )
    elif server.is_off_host:
        yield from allocation_checks.judge_left_over(server, held)
    elif server.status not in _CHANGING and server.status != 'BUILD':
        yield from allocation_checks.judge(server, held, known)


def _judge_status(server: nova_servers.NovaServer) -> Iterator[reasons.Reason]:
    if server.status == 'ERROR':
        yield _judge_error(server)
    elif server.status == 'SHELVED_OFFLOADED' or server.status in _STOPPED:
        yield _judge_stopped(server)
    elif server.status != 'ACTIVE' or server.task:
        yield _judge_work(server)


def _judge_stopped(server: nova_servers.NovaServer) -> reasons.Reason:
    text = f'It does not run ({server.status}). Its GPUs stay allocated.'
    action = _STOPPED.get(server.status, 'unshelve')
    if server.status == 'SHELVED_OFFLOADED':
        text = (
            'It is shelved: it is on no host and has no GPU. When it is '
            'unshelved, it needs free GPUs.'
        )
    return reasons.Reason(
        reasons.Code.STOPPED,
        reasons.State.STOPPED,
        text,
        f'openstack server {action} {server.uuid}',
    )


def _judge_work(server: nova_servers.NovaServer) -> reasons.Reason:
    """Nova is at work on it, or waits for the user."""
    code, state = reasons.Code.IN_PROGRESS, reasons.State.CHANGING
    text = f'Nova is at work on it ({server.task or server.status}).'
    cure = _AGAIN
    if server.status == 'BUILD':
        code, text = reasons.Code.BUILDING, 'Nova is building it.'
    elif server.status == 'VERIFY_RESIZE':
        code = reasons.Code.TO_CONFIRM
        text = (
            'It was resized or migrated. Until that is confirmed or reverted, '
            'what it had before stays allocated as well.'
        )
        cure = (
            f'openstack server resize confirm {server.uuid}, or '
            f'openstack server resize revert {server.uuid}'
        )
    elif server.status not in _CHANGING and server.status != 'ACTIVE':
        code, state = reasons.Code.OTHER_STATUS, reasons.State.UNKNOWN
        text = (
            f'Its status is {server.status}, which this command does not know.'
        )
        cure = f'openstack server show {server.uuid}'
    return reasons.Reason(code, state, text, cure)


def _judge_error(server: nova_servers.NovaServer) -> reasons.Reason:
    said = server.fault or 'no reason is given'
    if server.host is None:
        cure = (
            'An administrator sees how many more servers of the flavor fit '
            '("openstack vgpu flavor list"), and what is wrong with flavors '
            'and GPUs ("openstack vgpu doctor"). Then delete the server and '
            'create it again.'
        )
    else:
        cure = (
            f'The log of nova-compute on {server.host} has the details. Then '
            f'openstack server reboot --hard {server.uuid}'
        )
    return reasons.Reason(
        reasons.Code.SERVER_ERROR,
        reasons.State.FAILED,
        f'Nova has put it into ERROR: {said.rstrip(".")}.',
        cure,
    )
