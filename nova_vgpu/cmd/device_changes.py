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


"""``nova-vgpu device enable`` and ``device disable``: manual changes."""

import argparse
import typing

from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.cmd import changes
from nova_vgpu.knowledge import capabilities
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import host_access
from nova_vgpu.plan import mapper
from nova_vgpu.plan import type_matching
from nova_vgpu.reconcile import manual_steps
from nova_vgpu.reconcile import steps


class _Device(changes.Changer):
    """Changes one vGPU, and shows the effect on others."""

    table_columns = ('Device', 'State', 'Type', 'UUID')
    prints_table = True  # it is about the device

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('device', metavar='DEVICE', help=self.device_help)
        return parser

    device_help = ''

    def change(
        self,
        access: host_access.HostAccess,
        decide: typing.Callable[
            [host_access.HostState], steps.VGPUStep | None
        ],
    ) -> base.Rows:
        chosen: list[steps.VGPUStep] = []
        before: list[values.Host] = []

        def plan(state: host_access.HostState) -> apply.ManualSteps:
            before.append(state.host)
            step = decide(state)
            if step is None:
                return apply.ManualSteps(())
            chosen.append(step)
            keep: dict[str, str | None] = {}
            if isinstance(step, values.SetType):
                keep[step.function] = step.after or None
            return apply.ManualSteps(
                (values.GPUSteps(step.gpu, (step,)),), keep
            )

        self._outcome = apply.execute(access, plan, self)
        now = access.read_host()
        return (
            *self.table_columns,
            'GPU',
            'Available Before',
            'Available Now',
        ), [self._row(step, before[0], now) for step in chosen]

    def _row(
        self, step: steps.VGPUStep, before: values.Host, now: values.Host
    ) -> tuple[typing.Any, ...]:
        was, types = _available(before, step.gpu), _available(now, step.gpu)
        gone = ', '.join(name for name in was if name not in types)
        new = ', '.join(name for name in types if name not in was)
        if gone:
            self.say(f'GPU {step.gpu} no longer has room for: {gone}.')
        if new:
            self.say(f'GPU {step.gpu} has room again for: {new}.')
        state = 'free', '-', '-'
        names = type_matching.list_type_names(now)
        for gpu in now.gpus:
            for vgpu in gpu.all_vgpus:
                if vgpu.name == steps.vgpu_in(step):
                    called = capabilities.short_name(
                        values.VGPUType(vgpu.type_id, names.get(vgpu.type_id))
                    )
                    state = 'configured', called, vgpu.uuid or '-'
        place = steps.spell(steps.function_in(step))
        room = base.Words(was), base.Words(types)
        return (place, *state, step.gpu, *room)


class EnableDevice(_Device):
    """Create a vGPU manually, and again after reboots.

    DEVICE is a virtual function, or a GPU: then the vGPU is created on the GPU
    itself, or on its first function with room for the type. The device must
    have room for the type, and if nova.conf declares a type for the GPU, it
    must be that one. The output shows the types for which the GPU has room
    before and after.

      nova-vgpu device enable 0000:41:00.4 --type A40-8Q
    """

    device_help = 'PCI address of a virtual function or of a GPU.'

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--type',
            metavar='TYPE',
            required=True,
            help='The type, by name or id; see "nova-vgpu type list".',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        access = self.make_access(parsed_args)
        configuration = self.load_configuration()

        def decide(state: host_access.HostState) -> steps.VGPUStep:
            plan = mapper.make_plan(
                configuration.plan_input(
                    state.host, access.read_modes(state.host)
                )
            )
            return manual_steps.enable_device(
                state.host,
                state.usage,
                plan,
                parsed_args.device,
                parsed_args.type,
                access.new_uuid,
            )

        return self.change(access, decide)


class DisableDevice(_Device):
    """Remove a vGPU manually, also after reboots.

    It is refused if a server uses the vGPU, running or not.

      nova-vgpu device disable 0000:41:00.4
    """

    device_help = 'PCI address of a virtual function, or UUID of a vGPU.'

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        def decide(state: host_access.HostState) -> steps.VGPUStep | None:
            return manual_steps.disable_device(
                state.host, state.usage, parsed_args.device
            )

        return self.change(self.make_access(parsed_args), decide)


def _available(host: values.Host, gpu: str) -> tuple[str, ...]:
    """Short names of the types that the GPU can take one more of."""
    found = {
        offer.type.id: capabilities.short_name(offer.type)
        for each in host.gpus
        if str(each) == gpu
        for offer in each.all_offers
        if offer.available
    }
    return tuple(found.values())
