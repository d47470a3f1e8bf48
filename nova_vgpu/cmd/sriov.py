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


"""``nova-vgpu sriov``: the virtual functions of GPUs."""

import argparse
from collections.abc import Callable

from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.cmd import changes
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import host_access
from nova_vgpu.reconcile import manual_steps


class _Sriov(changes.Changer):
    """Changes the VFs of the given GPUs."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'gpu',
            metavar='GPU',
            nargs='+',
            help='PCI address of a GPU, in any spelling.',
        )
        return parser

    def change(
        self,
        parsed_args: argparse.Namespace,
        decide: Callable[[values.PhysicalGPU], values.GPUSteps],
    ) -> base.Rows:
        """Decide and run the steps of each GPU."""

        def plan(state: host_access.HostState) -> apply.ManualSteps:
            gpus = dict.fromkeys(
                gpu
                for wanted in parsed_args.gpu
                for gpu in base.select_gpus(state.host, wanted)
            )
            return apply.ManualSteps(tuple(map(decide, gpus)))

        access = self.make_access(parsed_args)
        return self.rows_of(apply.execute(access, plan, self))


class EnableVFs(_Sriov):
    """Enable all VFs of GPUs, and wait until they show types.

    NVIDIA's sriov-manage is used if it is installed, else sysfs. A GPU that an
    interrupted sriov-manage left on pci-pf-stub is repaired first. The command
    ends when sysfs and libvirt show the functions with their types. A reboot
    disables them; "nova-vgpu apply" enables those that nova.conf needs.

      nova-vgpu sriov enable 0000:41:00.0 0000:c1:00.0
    """

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        return self.change(parsed_args, manual_steps.enable_vfs)


class DisableVFs(_Sriov):
    """Disable the virtual functions of GPUs.

    It is refused while one of them has a vGPU, or is configured to have one
    after a reboot, or a server uses one. "nova-vgpu device disable" removes
    unused vGPUs. "nova-vgpu apply" enables the functions again if
    nova.conf needs them.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        return self.change(parsed_args, manual_steps.disable_vfs)
