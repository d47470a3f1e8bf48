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

"""Check the lab from inside: python3 -m lab.guest.selfcheck [PART...].

The parts are guest, types, presence, tools, xe and instances; all, if none is
named. The machine is left without VFs, vGPUs and faults, as it is after it was
started.
"""

import os
import sys

from lab.guest.selfcheck import guest_checks
from lab.guest.selfcheck import instances_checks
from lab.guest.selfcheck import machine
from lab.guest.selfcheck import presence_checks
from lab.guest.selfcheck import registry
from lab.guest.selfcheck import tools_checks
from lab.guest.selfcheck import types_checks
from lab.guest.selfcheck import xe_checks

#: In the order in which they run. Libvirt looks at each function that comes,
#: and takes its time; what it is asked for is first, with few functions.
_PARTS = {
    'guest': guest_checks,
    'types': types_checks,
    'presence': presence_checks,
    'tools': tools_checks,
    'xe': xe_checks,
    'instances': instances_checks,
}

_KERNEL_LOG = '/dev/kmsg'
_COMPLAINTS = ('BUG:', 'Oops', 'WARNING:', 'Call Trace', 'INFO: task')


def _clean() -> None:
    guest_checks.stop()
    tools_checks.clear_faults()
    machine.clear()


def _leave() -> None:
    _clean()
    for gpu in machine.GPUS:
        if gpu.has_sriov:
            machine.write(gpu.numvfs, 0)


def _open_log() -> int:
    """The messages of the kernel from now on."""
    fd = os.open(_KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(fd, 0, os.SEEK_END)
    return fd


def _find_complaints(fd: int) -> list[str]:
    found: list[str] = []
    while True:
        try:
            line = os.read(fd, 8192).decode(errors='replace')
        except BlockingIOError:
            return found
        except BrokenPipeError:
            continue  # some were overwritten; the next ones are there
        if any(complaint in line for complaint in _COMPLAINTS):
            found.append(line.strip())


def main() -> int:
    log = _open_log()
    try:
        _leave()
    except registry.Failed as e:
        print(e, file=sys.stderr)
        return 1

    @registry.check('the machine as it was, no complaint of the kernel')
    def _end() -> None:
        _leave()
        registry.same('complaints', _find_complaints(log), [])

    parts = [part for part in _PARTS if part in (sys.argv[1:] or _PARTS)]
    modules = [*(_PARTS[part] for part in parts), sys.modules[__name__]]
    failed = registry.run(modules, _clean)
    _leave()
    return 1 if failed else 0


sys.exit(main())
