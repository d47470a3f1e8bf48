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

"""Run the life of this project on a real kernel with fake GPUs.

The first run builds a Debian 13 with them, which takes some minutes; the next
ones use it. Then one virtual machine is booted, checks itself, and runs the
tests of each boot in turn, over its reboots. Needs root, on a Debian machine.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import sys
import time
import typing
import urllib.parse

from lab import agent
from lab import cache
from lab import machine
from lab import project
from lab import stages
from nova_vgpu.simulation import placement

#: What is run at each boot, before the next one: modules of guest/tests.
BOOTS = (
    (
        *('test_readers', 'test_life', 'test_servers', 'test_in_use'),
        *('test_faults', 'test_before_reboot'),
    ),
    ('test_after_reboot',),
    ('test_after_upgrade',),
)
_TEST_SECONDS = 1200.0
_PYTHON = f'/{stages.ENVIRONMENT}/bin/python'


class Broken(Exception):
    """The lab itself does not work: nothing is known of the project."""


def main() -> int:
    options = _parse()
    if os.geteuid() != 0:
        raise SystemExit('The lab needs root: it makes a Debian and its disk.')
    if shutil.which('mmdebstrap') is None:
        raise SystemExit('mmdebstrap is missing: apt-get install mmdebstrap')
    # What was started is ended also then.
    signal.signal(signal.SIGTERM, _end)
    its = cache.Cache(options.cache)
    began = time.monotonic()
    try:
        with its.held(_show):
            stages.build(its, _show, lambda seed: _seed(its, seed))
            failed = _run(its, options.boots)
    except (cache.BuildFailed, agent.Unreachable, Broken) as error:
        print(f'{error}\nThe lab is broken; logs: {its.path}', file=sys.stderr)
        return 2
    seconds = time.monotonic() - began
    outcome = f'{len(failed)} failed: {", ".join(failed)}' if failed else 'ok'
    print(f'lab: {outcome} in {seconds:.0f} s; logs: {its.path / "run"}')
    return 1 if failed else 0


def _end(number: int, frame: object) -> typing.NoReturn:
    sys.exit(128 + number)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='lab/run', description=__doc__)
    home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    parser.add_argument(
        '--cache',
        type=pathlib.Path,
        default=pathlib.Path(home, 'nova-vgpu-lab'),
        help='where to build, about 5 GB (default: %(default)s)',
    )
    parser.add_argument(
        '--boots',
        type=int,
        default=len(BOOTS),
        help='only the first so many of %(default)s boots',
    )
    return parser.parse_args()


def _show(line: str) -> None:
    print(f'==> {line}' if not line.startswith(' ') else line, flush=True)


def _run(its: cache.Cache, boots: int) -> list[str]:
    """Boot, and run the tests; gives the names of those that failed."""
    directory = _make_directory(its, 'run')
    project.install(its, directory / 'project')
    project.add_root(directory / 'project')
    shutil.copytree(its.seed, directory / 'project', dirs_exist_ok=True)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(
            placement.run_placement(directory / 'placement')
        )
        port = urllib.parse.urlsplit(url).port or 0
        began = time.monotonic()
        guest = stack.enter_context(machine.started(its, directory, port))
        guest.wait()
        _show(f'booted in {time.monotonic() - began:.0f} s')
        stack.callback(_keep_journal, guest, directory)
        _check(guest)
        failed = []
        for number, tests in enumerate(BOOTS[:boots]):
            if number:
                began = time.monotonic()
                guest.reboot()
                _show(f'rebooted in {time.monotonic() - began:.0f} s')
            for test in tests:
                if not _test(guest, test):
                    failed.append(test)
    return failed


def _make_directory(its: cache.Cache, name: str) -> pathlib.Path:
    directory = its.path / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return directory


def _check(guest: machine.Machine) -> None:
    """Let the rig check itself, before anything is said of the project."""
    _show('self-check')
    began = time.monotonic()
    code = guest.run(
        *('env', '-C', project.TESTS, 'PYTHONUNBUFFERED=1'),
        *('/usr/bin/python3', '-m', 'lab.guest.selfcheck'),
        seconds=_TEST_SECONDS,
        show=_pass_on,
    )
    if code:
        raise Broken('The self-check of the lab failed.')
    _show(f'    took {time.monotonic() - began:.0f} s')


def _test(guest: machine.Machine, name: str) -> bool:
    _show(name)
    began = time.monotonic()
    code = guest.run(
        *('env', '-C', project.TESTS, 'PYTHONUNBUFFERED=1'),
        'CLIFF_MAX_TERM_WIDTH=500',
        *(_PYTHON, '-m', 'unittest', '-v', f'lab.guest.tests.{name}'),
        seconds=_TEST_SECONDS,
        show=_pass_on,
    )
    _show(f'    took {time.monotonic() - began:.0f} s')
    return code == 0


def _pass_on(text: str) -> None:
    print(text, end='', flush=True)


def _keep_journal(guest: machine.Machine, directory: pathlib.Path) -> None:
    with contextlib.suppress(agent.Unreachable):
        text = guest.read('journalctl', '--no-pager', '-o', 'short-monotonic')
        (directory / 'journal.log').write_text(text)


def _seed(its: cache.Cache, seed: pathlib.Path) -> None:
    """What libvirt finds out about QEMU takes long when it is emulated."""
    directory = _make_directory(its, 'seeding')
    project.add_root(directory / 'project')
    kept = 'var/cache/libvirt/qemu/capabilities'
    with machine.started(its, directory, port=0) as guest:
        guest.wait()
        guest.read(
            *('virsh', '-c', 'qemu:///system', 'domcapabilities'),
            *('--virttype', 'qemu', '--machine', 'q35'),
        )
        for name in guest.read('ls', f'/{kept}').split():
            path = seed / kept / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(guest.read('cat', f'/{kept}/{name}'))


if __name__ == '__main__':
    sys.exit(main())
