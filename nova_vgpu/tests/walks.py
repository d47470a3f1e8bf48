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

"""Which functions of the project one operation passes, in order.

The page on the architecture describes such walks; tests compare it with what
is recorded here. All functions of a walk, and how many they are::

    $ python -m nova_vgpu.tests.walks apply doctor
    $ tox -e venv -- python -m nova_vgpu.tests.walks gpu
    $ tox -e venv -- python -m nova_vgpu.tests.walks server

The last two need Nova, which can be set up once in a process.

The simulated host and the tests are not counted, and neither are lambdas,
comprehensions and the bodies of modules and classes: they are part of the
function around them.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import inspect
import io
import pathlib
import pkgutil
import re
import sys
import tempfile
import threading
import types

import nova_vgpu
from nova_vgpu.cmd import main as program
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts
from nova_vgpu.tests import live

PACKAGE = pathlib.Path(nova_vgpu.__file__).parent
PAGE = PACKAGE.parent / 'doc/source/contributor/architecture.rst'
#: The sections of the page that describe the walks.
GPU_TITLE = 'One GPU, from sysfs to Placement'
SERVER_TITLE = 'One server with a vGPU'
APPLY_TITLE = 'One apply'
DOCTOR_TITLE = 'One run of the doctor'
#: What stands in for the machine, and what drives the walk.
_NOT_COUNTED = ('sandbox', 'tests')

GPU = '0000:41:00.0'
#: Few of its functions and types pass everything that all of them would.
BOARD = live.shrink(boards.A40, 4, 'A40-8Q', 'A40-24Q')
CONFIGURATION = f"""
[devices]
enabled_vgpu_types = A40-8Q
[vgpu_A40-8Q]
device_addresses = {GPU}
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Passed:
    """A function at its first call, and those of the project that led there.

    ``callers`` begins with the outermost one.
    """

    name: str
    module: str
    callers: tuple[str, ...]


class Walk:
    """The functions that were passed, in the order of their first calls."""

    def __init__(self) -> None:
        self.passed: dict[str, Passed] = {}
        self.depth = 0

    @property
    def modules(self) -> frozenset[str]:
        return frozenset(passed.module for passed in self.passed.values())

    def __str__(self) -> str:
        return (
            f'{len(self.passed)} functions in {len(self.modules)} files, '
            f'at most {self.depth} deep'
        )

    def outline(self) -> str:
        """Every function, indented by how deep it was called first."""
        return '\n'.join(
            f'{"  " * len(passed.callers)}{passed.name}'
            for passed in self.passed.values()
        )


class _Recorder:
    """What is told of every call, and notes those that count."""

    def __init__(self) -> None:
        self.walk = Walk()
        self._names: dict[types.CodeType, tuple[str, str] | None] = {}

    def profile(
        self, frame: types.FrameType, event: str, argument: object
    ) -> None:
        found = self._name(frame.f_code) if event == 'call' else None
        if found is None:
            return
        name, module = found
        callers = self._list_callers(frame)
        self.walk.depth = max(self.walk.depth, len(callers) + 1)
        self.walk.passed.setdefault(name, Passed(name, module, callers))

    def _list_callers(self, frame: types.FrameType) -> tuple[str, ...]:
        callers: list[str] = []
        above = frame.f_back
        while above is not None:
            found = self._name(above.f_code)
            if found is not None:
                callers.insert(0, found[0])
            above = above.f_back
        return tuple(callers)

    def _name(self, code: types.CodeType) -> tuple[str, str] | None:
        """The dotted name of a function that counts, and its module."""
        if code not in self._names:
            self._names[code] = _name_function(code)
        return self._names[code]


def _name_function(code: types.CodeType) -> tuple[str, str] | None:
    path = pathlib.Path(code.co_filename)
    if PACKAGE not in path.parents or code.co_name.startswith('<'):
        return None
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return None  # the body of a class
    parts = path.relative_to(PACKAGE).with_suffix('').parts
    if parts[0] in _NOT_COUNTED:
        return None
    module = '.'.join(('nova_vgpu', *parts)).removesuffix('.__init__')
    qualified = code.co_qualname.replace('.<locals>', '')
    return f'{module}.{qualified}', module


def record(operation: Callable[[], object]) -> Walk:
    """The walk of an operation: in this thread, and in those it starts."""
    recorder = _Recorder()
    before = sys.getprofile()
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    try:
        operation()
    finally:
        sys.setprofile(before)
        threading.setprofile(before)
    return recorder.walk


# -- the walks that need no Nova ------------------------------------------


def walk_apply() -> Walk:
    """``nova-vgpu apply`` on a host with one GPU, which takes two steps.

    Its virtual functions are off: they are enabled, and their types awaited.
    """
    gpu = hosts.gpu(GPU, BOARD)
    with live.LiveHost(gpu) as host:
        errors = io.StringIO()
        application = live.Program(host, stdout=io.StringIO(), stderr=errors)
        config = host.path / 'nova.conf'
        config.write_text(CONFIGURATION)
        arguments = ['--config-file', str(config)]
        arguments += ['--config-dir', str(host.path / 'locks')]
        codes: list[int] = []
        walk = record(
            lambda: codes.append(application.run([*arguments, 'apply']))
        )
    if codes != [0] or '2 done, 0 refused, 0 failed.' not in errors.getvalue():
        raise AssertionError(f'{codes}: {errors.getvalue()}')
    return walk


def walk_doctor() -> Walk:
    """``nova-vgpu doctor`` on a host with one GPU that is ready."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name, 'sys')
        gpu = hosts.gpu(GPU, BOARD, vfs=BOARD.total_vfs)
        tree.write_tree(simulation.SimulatedHost((gpu,)), root)
        config = pathlib.Path(name, 'nova.conf')
        config.write_text(CONFIGURATION)
        errors = io.StringIO()
        application = program.NovaVGPU(stdout=io.StringIO(), stderr=errors)
        arguments = ['--sysfs-root', str(root), '--config-file', str(config)]
        arguments += ['--config-dir', name, '--state-dir', name]
        codes: list[int] = []
        walk = record(
            lambda: codes.append(application.run([*arguments, 'doctor']))
        )
    if codes != [0]:
        raise AssertionError(f'{codes}: {errors.getvalue()}')
    return walk


# -- the page ----------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A function that the page names as the next one, and what it is below."""

    name: str
    indentation: int


def list_steps(title: str) -> list[Step]:
    """The functions that items of lists begin with, below a title."""
    section = PAGE.read_text().partition(f'\n{title}\n')[2]
    section = re.split(r'\n\n[^\n ][^\n]*\n-{3,}\n', section)[0]
    return [
        Step(name, len(indentation))
        for indentation, name in re.findall(
            r'^( *)(?:#\.|\*) ``(nova_vgpu\.[\w.]+)``', section, re.MULTILINE
        )
    ]


def find_mistakes(title: str, walk: Walk) -> list[str]:
    """Where a list of the page is not what was recorded."""
    steps = list_steps(title)
    return list(compare(steps, walk)) if steps else [f'no list in {title!r}']


def compare(steps: Iterable[Step], walk: Walk) -> Iterator[str]:
    """Where steps are not what was recorded.

    They are passed in this order, and each of them is called, perhaps by
    others in between, from the one that it is indented below.
    """
    order = list(walk.passed)
    last: Step | None = None
    above: list[Step] = []
    for step in steps:
        passed = walk.passed.get(step.name)
        if passed is None:
            yield f'{step.name} is not passed'
            continue
        if last and order.index(step.name) < order.index(last.name):
            yield f'{step.name} is passed before {last.name}'
        above = [a for a in above if a.indentation < step.indentation]
        if above and above[-1].name not in passed.callers:
            yield f'{step.name} is not called by {above[-1].name}'
        above.append(step)
        last = step


_FUNCTIONAL = 'nova_vgpu.tests.functional'
#: The section of the page, and what records the walk. Those that need Nova are
#: imported when they are asked for.
WALKS = {
    'gpu': (GPU_TITLE, f'{_FUNCTIONAL}.gpu_walk:walk_gpu'),
    'server': (
        SERVER_TITLE,
        f'{_FUNCTIONAL}.compute.test_server_walk:walk_server',
    ),
    'apply': (APPLY_TITLE, f'{__name__}:walk_apply'),
    'doctor': (DOCTOR_TITLE, f'{__name__}:walk_doctor'),
}


def main(arguments: list[str]) -> int:
    """Print walks, and where the page is wrong about them."""
    unknown = [name for name in arguments if name not in WALKS]
    if unknown or not arguments:
        print(f'Walks: {", ".join(WALKS)}', file=sys.stderr)
        return 2
    mistakes: list[str] = []
    for name in arguments:
        title, function = WALKS[name]
        walk: Walk = pkgutil.resolve_name(function)()
        print(walk.outline())
        print(f'{name}: {walk}')
        mistakes += find_mistakes(title, walk)
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    return 1 if mistakes else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
