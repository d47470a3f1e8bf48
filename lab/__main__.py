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
ones use it. Then virtual machines are booted, side by side; each checks itself
and runs its tests, over its reboots. Needs root, on a Debian machine.
"""

import argparse
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
import contextlib
import os
import pathlib
import re
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
from lab import unit_tests
from nova_vgpu import exception
from nova_vgpu.sandbox import placement

#: What is run on each machine, boot by boot: modules of guest/tests.
MACHINES: dict[str, tuple[tuple[str, ...], ...]] = {
    'servers': (
        (
            *('test_life', 'test_servers', 'test_divided'),
            *('test_gpu_instances', 'test_vf_profiles', 'test_faults'),
        ),
    ),
    'reboots': (
        ('test_before_reboot',),
        ('test_after_reboot',),
        ('test_after_upgrade',),
    ),
}
#: The parts of the self-check, in an order that makes for even shares.
CHECKS = ('guest', 'presence', 'types', 'tools', 'xe', 'instances')
_UNIT_TESTS = 'unit-tests'
_TEST_SECONDS = 2400.0
_FAILED = re.compile(r'^(?:FAIL|ERROR): .*\(lab\.guest\.tests\.(.*)\)')
_PYTHON = f'/{stages.ENVIRONMENT}/bin/python'


Result = typing.TypeVar('Result')


class Broken(Exception):
    """The lab itself does not work: nothing is known of the project."""


def main() -> int:
    options = _parse()
    if os.geteuid() != 0:
        raise SystemExit('The lab needs root: it makes a Debian and its disk.')
    if shutil.which('mmdebstrap') is None:
        raise SystemExit('mmdebstrap is missing: apt-get install mmdebstrap')
    # What was started is ended also then.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    its = cache.Cache(options.cache)
    began = time.monotonic()
    try:
        with its.held(_show):
            stages.build(its, _show, lambda seed: _seed(its, seed))
            failed = _run(its, options.what or list(MACHINES))
    except (
        cache.BuildFailed,
        agent.Unreachable,
        exception.PlacementError,
        Broken,
    ) as error:
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
    known = (*MACHINES, _UNIT_TESTS)
    parser.add_argument(
        'what',
        nargs='*',
        metavar='WHAT',
        help=f'what to run: the machines {" and ".join(MACHINES)}, or '
        f'{_UNIT_TESTS} with the Python of the machines (default: machines)',
    )
    options = parser.parse_args()
    if not options.cache.is_absolute():
        parser.error(f'--cache is {options.cache}, and not an absolute path')
    for what in options.what:
        if what not in known:
            parser.error(f'WHAT is {what}, and not one of {", ".join(known)}')
    return options


def _show(line: str) -> None:
    print(f'==> {line}' if not line.startswith(' ') else line, flush=True)


def _run(its: cache.Cache, what: Sequence[str]) -> list[str]:
    """Run what is asked for; gives the names of what failed."""
    failed = []
    if _UNIT_TESTS in what and not unit_tests.run(its):
        failed.append(_UNIT_TESTS)
    names = [name for name in MACHINES if name in what]
    return failed + (_run_machines(its, names) if names else [])


def _run_machines(its: cache.Cache, names: Sequence[str]) -> list[str]:
    """Boot machines, and run their tests; gives the names of what failed."""
    directory = _make_directory(its, 'run')
    project.install(its, directory / 'project')
    project.add_root(directory / 'project')
    shutil.copytree(its.seed, directory / 'project', dirs_exist_ok=True)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(
            placement.run_placement(directory / 'placement')
        )
        port = urllib.parse.urlsplit(url).port or 0
        guests = {
            name: stack.enter_context(
                machine.started(
                    its, directory / name, directory / 'project', port
                )
            )
            for name in names
        }

        # No machine tests the project before all passed their self-checks.
        # They are alike: each checks a share of what they have in common.
        def check(name: str, guest: machine.Machine) -> None:
            _check(name, guest, CHECKS[names.index(name) :: len(names)])

        _at_once(check, guests)
        return [
            test for failed in _at_once(_run_boots, guests) for test in failed
        ]


def _at_once(
    body: Callable[[str, machine.Machine], Result],
    guests: Mapping[str, machine.Machine],
) -> list[Result]:
    executor = futures.ThreadPoolExecutor()
    try:
        begun = [executor.submit(body, *each) for each in guests.items()]
        futures.wait(begun)
        return [each.result() for each in begun]
    finally:
        # If this program is ended, guests are, and with them who uses them.
        executor.shutdown(wait=False, cancel_futures=True)


def _run_boots(name: str, guest: machine.Machine) -> list[str]:
    """Gives what failed: a guest that does not answer any more as well.

    It did so before the project was run there.
    """
    failed = []
    try:
        for number, modules in enumerate(MACHINES[name]):
            if number:
                began = time.monotonic()
                guest.reboot()
                _tell(name, f'rebooted in {time.monotonic() - began:.0f} s')
            failed += _test(name, guest, modules)
    except agent.Unreachable as error:
        _tell(name, f'{error}')
        failed.append(f'{name}, which does not answer')
    guest.keep_journal()
    return failed


def _make_directory(its: cache.Cache, name: str) -> pathlib.Path:
    directory = its.path / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return directory


def _check(name: str, guest: machine.Machine, parts: Sequence[str]) -> None:
    """Let the rig check itself, before anything is said of the project."""
    began = time.monotonic()
    guest.wait()
    _tell(name, f'booted in {time.monotonic() - began:.0f} s; self-check')
    began = time.monotonic()
    code = guest.run(
        *('env', '-C', project.TESTS, 'PYTHONUNBUFFERED=1'),
        *('/usr/bin/python3', '-m', 'lab.guest.selfcheck', *parts),
        seconds=_TEST_SECONDS,
        show=lambda line: _tell(name, line),
    )
    if code:
        guest.keep_journal()
        raise Broken(f'The self-check of machine {name} failed.')
    _tell(name, f'self-check took {time.monotonic() - began:.0f} s')


def _test(
    name: str, guest: machine.Machine, modules: Sequence[str]
) -> list[str]:
    """Run tests; gives the names of those that failed.

    In one process: to start one and import Nova takes most of a minute.
    """
    _tell(name, ', '.join(modules))
    began = time.monotonic()
    failed: list[str] = []

    def show(line: str) -> None:
        _tell(name, line)
        failed.extend(_FAILED.findall(line))

    code = guest.run(
        *('env', '-C', project.TESTS, 'PYTHONUNBUFFERED=1'),
        *('PYTHONWARNINGS=ignore', 'CLIFF_MAX_TERM_WIDTH=500'),
        *(_PYTHON, '-m', 'unittest', '-v', '--durations', '0'),
        *(f'lab.guest.tests.{module}' for module in modules),
        seconds=_TEST_SECONDS,
        show=show,
    )
    _tell(name, f'tests took {time.monotonic() - began:.0f} s')
    return failed or [f'{name}: exit code {code}'] if code else []


def _tell(name: str, line: str) -> None:
    print(f'{name}: {line.rstrip()}', flush=True)


def _seed(its: cache.Cache, seed: pathlib.Path) -> None:
    """What libvirt finds out about QEMU takes long when it is emulated."""
    directory = _make_directory(its, 'seeding')
    project.add_root(directory / 'project')
    kept = 'var/cache/libvirt/qemu/capabilities'
    with machine.started(its, directory, directory / 'project', 0) as guest:
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
