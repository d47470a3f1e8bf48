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


"""``nova-vgpu apply`` and ``nova-vgpu restore``."""

import argparse

from nova_vgpu import values
from nova_vgpu.cmd import base
from nova_vgpu.cmd import changes
from nova_vgpu.host import sysfs
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import step_runner


class Apply(changes.Changer):
    """Bring this host to the state that nova.conf declares.

    Virtual functions are enabled, the GPU instances that types of MIG need are
    created, virtual functions of Intel are provisioned, vGPUs of servers that
    a reboot removed are created again, and unused vGPUs of another type are
    removed. MIG mode is switched with [devices]switch_mig_mode only, on a GPU
    that nothing uses; GPUs of AMD are not changed. A vGPU in use is never
    changed: it is reported, and everything else is done. The command can be
    run at any time, and again after it was killed. "nova-vgpu restore" reverts
    the last apply.

    It needs libvirt on this host, also with --dry-run, and the extra nvml for
    GPU instances, MIG mode and types of different sizes on one GPU.

    The names of type ids are stored (types.json in --state-dir). If nova.conf
    has an id that a driver upgrade gave to another type, nothing is done.

      nova-vgpu apply --dry-run

    Exit code: 0 the declared state is reached, 3 except for vGPUs in use, 2
    errors; with --dry-run, the expected one.
    """

    way_on = 'Run it again to continue, or "nova-vgpu restore" to revert it.'

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Show the steps and change nothing.',
        )
        base.add_gpu_filter(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        access = self.make_access(parsed_args)
        gpu = None
        if parsed_args.gpu is not None:
            host = sysfs.read_host(access.tree)
            (selected,) = base.select_gpus(host, parsed_args.gpu)
            gpu = str(selected)
        configuration = self.load_configuration()
        for problem in configuration.problems:
            if problem.severity is values.Severity.WARNING:
                self.warn(str(problem))
        if not parsed_args.dry_run:
            return self.rows_of(apply.apply(access, configuration, self, gpu))
        self._is_dry_run = self.prints_table = True
        draft = apply.plan(access, configuration, self, gpu)
        if any(isinstance(step, values.SetMigMode) for step in draft.steps):
            self.say('Further steps follow when MIG mode has been switched.')
        if any(isinstance(step, values.AwaitTypes) for step in draft.steps):
            self.say('Further steps can follow when the types have appeared.')
        _, rows = found = self.rows_of(draft.outcome, draft.steps)
        if not rows:
            self.say('Nothing to do.')
        return found


class Restore(changes.Changer):
    """Revert what the last "nova-vgpu apply" did to this host.

    An interrupted apply and the one that continued it are reverted together.
    vGPUs in use are not changed. Exit code: 0 done or nothing to do, 3 some
    steps are left because their vGPUs are in use, 2 errors.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        outcome = apply.restore(self.make_access(parsed_args), self)
        return self.rows_of(outcome or step_runner.Outcome())
