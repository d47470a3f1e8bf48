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

"""``nova-vgpu check``: is nova.conf right for this host?"""

import argparse

from nova_vgpu import values
from nova_vgpu.cmd import base

_EXIT_WARNINGS = 1


class Check(base.Lister):
    """Check nova.conf against this host and list every problem.

    A "fatal" problem is a mistake in the configuration: nova-compute does not
    start, and raises InvalidLibvirtGPUConfig. An "error" concerns a GPU that
    is not ready or does not offer its type: it has no inventory, the others
    serve. Exit code: 0 clean or warnings only, 1 warnings with
    --strict, 2 errors.

    On this machine, type ids are compared with their stored names, which
    "nova-vgpu apply" and "nova-vgpu doctor" write.
    """

    table_columns = ('Severity', 'Problem', 'Cure')
    says_files = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--strict', action='store_true', help='Fail on warnings, too.'
        )
        return parser

    _problems: tuple[values.Problem, ...] = ()

    def run(self, parsed_args: argparse.Namespace) -> int:
        result = super().run(parsed_args)
        if result:
            return result
        found = {problem.severity for problem in self._problems}
        if self.say_if_fatal(self._problems) or values.Severity.ERROR in found:
            return base.EXIT_ERRORS
        if found and parsed_args.strict:
            return _EXIT_WARNINGS
        return 0

    def take_action(self, parsed_args: argparse.Namespace) -> base.Rows:
        host = self.read_host_quietly()
        problems = self.make_plan(host).problems
        self._problems = problems
        if not host.gpus:
            self.say(base.NO_GPUS)
        if not problems:
            self.say('No problems found.')
        return ('Severity', 'Code', 'Subject', 'Problem', 'Cure'), [
            (
                problem.severity.value,
                problem.code,
                problem.subject,
                problem.message,
                problem.cure,
            )
            for problem in problems
        ]
