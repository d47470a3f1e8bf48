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

"""Problems of a return to Nova's own driver."""

from nova_vgpu import values

_WITH_THIS_DRIVER = 'Start nova-compute with this driver again'


def no_guest(
    gpu: values.PhysicalGPU, consumer: values.Consumer
) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'holder-not-here',
        str(gpu),
        f'{consumer.uuid} has allocations of GPU {gpu}, but it is not a guest '
        'of this host.',
        f'{_WITH_THIS_DRIVER}, and confirm or revert its resize or migration. '
        'If neither that nor the server exists: "nova-manage placement '
        'audit" finds orphaned allocations.',
    )


def differs(
    gpu: values.PhysicalGPU, guest: values.Guest, allocated: int, there: int
) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'vgpus-differ',
        str(gpu),
        f'Server {_describe(guest.uuid, guest)} has allocations of '
        f'{allocated} vGPUs of GPU {gpu}, but the virtual functions there '
        f'have {there} of its vGPUs.',
        f'{_WITH_THIS_DRIVER}, and hard-reboot the server: it gets its vGPUs '
        'back.',
    )


def function_taken(
    gpu: values.PhysicalGPU,
    held: values.PlacementProvider,
    consumer: values.Consumer,
) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'function-taken',
        str(gpu),
        f'Server {consumer.uuid} has a vGPU of GPU {gpu} whose provider '
        f'{held.name} has allocations of another consumer.',
        'Delete or move that consumer: "openstack resource provider show '
        f'--allocations {held.uuid}".',
    )


def not_for_nova(
    gpu: values.PhysicalGPU,
    consumer: values.Consumer,
    guest: values.Guest | None,
) -> values.Problem:
    return values.Problem(
        values.Severity.FATAL,
        'not-for-nova',
        str(gpu),
        f'Server {_describe(consumer.uuid, guest)} has vGPUs of GPU {gpu}, '
        "which has no mediated devices. Nova's driver cannot serve it.",
        'Move or delete the server first.',
    )


def left_behind(held: values.PlacementProvider) -> values.Problem:
    return values.Problem(
        values.Severity.WARNING,
        'left-behind',
        held.name,
        f'Provider {held.name} has allocations, but no GPU of the plan. It '
        "stays as it is, and Nova's driver does not manage it.",
        'When its servers are gone: "openstack resource provider delete '
        f'{held.uuid}".',
    )


def _describe(uuid: str, guest: values.Guest | None) -> str:
    return f'{uuid} ({guest.name})' if guest else uuid
