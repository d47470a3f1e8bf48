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


"""Nothing leads a write outside of the few files that may be written."""

from collections.abc import Iterator
import contextlib
import dataclasses
import json
import os
import pathlib
import re

import fixtures
import hypothesis
from hypothesis import strategies as st
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import state
from nova_vgpu.host import state_files
from nova_vgpu.host import tools
from nova_vgpu.host import virtual_functions
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.lifecycle import journal
from nova_vgpu.lifecycle import step_executor
from nova_vgpu.tests import live

#: Written anew, and not taken from the code.
ALLOWED = re.compile(
    r'/bus/pci/(drivers_probe|drivers/pci-pf-stub/unbind|devices/'
    r'[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]/'
    r'(sriov_numvfs|driver_override|nvidia/current_vgpu_type'
    r'|sriov_admin/vf[1-9][0-9]*/profile/'
    r'(vram_quota|exec_quantum_ms|preempt_timeout_us)))'
)
PIECES = (
    *('..', '.', '/', '//', 'etc', 'passwd', '\0', '\n', ' ', '%2e%2e', '~'),
    *('bus', 'pci', 'devices', 'drivers', 'nvidia', 'remove', 'create'),
    *('0000:41:00.4', '0000:41:00.0', '41:00.0', '../0000:41:00.4'),
    *('current_vgpu_type', 'sriov_numvfs', 'driver_override', 'unbind'),
    *('nvidia-1155', 'NVIDIA L40S-24Q', '$(reboot)', '; reboot', '-rf'),
)
TYPE_IDS = st.integers().map(lambda number: f'nvidia-{number}')
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=4).map(''.join),
    st.text(max_size=20),
)


class Recording(files.Files):
    """A tree that notes where it is written to, on every way."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.written: list[str] = []

    def read(self, *parts: str) -> str:
        self.path(*parts)
        return '0'

    def link(self, *parts: str) -> str:
        self.path(*parts)
        return 'drivers/pci-pf-stub'


class TestPathSafety(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.root = str(root / 'sys')
        self.tree = Recording(self.root)
        self.own = 'no directory'

    @contextlib.contextmanager
    def expected_errors(self) -> Iterator[None]:
        """Note every write, and take the errors that bad input ends in."""
        real = os.open

        def opened(path: str, flags: int, *args: int) -> int:
            is_write = flags & (os.O_WRONLY | os.O_RDWR)
            if is_write and not str(path).startswith(self.own):
                self.tree.written.append(path)
                raise FileNotFoundError(2, 'not really', path)
            return real(path, flags, *args)

        with (
            fixtures.MonkeyPatch('os.open', opened),
            contextlib.suppress(
                OSError,
                ValueError,
                files.Unreadable,
                exception.NovaVGPUError,
            ),
        ):
            yield

    def assert_only_allowed(self) -> None:
        for path in self.tree.written:
            self.assertTrue(path.startswith(self.root), path)
            self.assertIsNotNone(
                ALLOWED.fullmatch(path.removeprefix(self.root)), path
            )
        self.tree.written.clear()

    @hypothesis.given(st.lists(TEXTS, max_size=6), TEXTS)
    def test_whatever_is_written_by_name(
        self, parts: list[str], text: str
    ) -> None:
        with self.expected_errors():
            self.tree.write(text, *parts)
        self.assert_only_allowed()

    @hypothesis.given(TEXTS, st.one_of(TYPE_IDS, TEXTS, st.none()))
    def test_whatever_the_type_of_a_function(
        self, address: str, type_id: str | None
    ) -> None:
        with self.expected_errors():
            nvidia.NvidiaTypes(self.tree).set_type(address, type_id)
        self.assert_only_allowed()

    @hypothesis.given(
        st.fixed_dictionaries(
            {'kind': st.sampled_from(sorted(journal._KINDS))},
            optional={
                name: st.one_of(
                    TEXTS,
                    st.integers(),
                    st.booleans(),
                    st.sampled_from([s.value for s in values.MdevState]),
                )
                for name in (
                    *('gpu', 'function', 'parent', 'uuid', 'type'),
                    *('before', 'after', 'vfs', 'setting'),
                )
            },
        )
    )
    def test_whatever_is_in_a_journal(self, found: dict[str, object]) -> None:
        try:
            step = journal.load_step(found)
        except ValueError:
            return
        self.take(step)

    @hypothesis.given(
        st.sampled_from(['RepairDriver', 'SetVFs', 'SetType']), st.data()
    )
    def test_whatever_a_step_says(
        self, kind: str, data: st.DataObject
    ) -> None:
        made = journal._KINDS[kind]
        fields = {
            field.name: data.draw(
                TEXTS if field.type is str else st.integers(0, 99)
            )
            for field in dataclasses.fields(made)
        }
        self.take(made(**fields))

    def take(self, step: values.Step) -> None:
        ran: list[list[str]] = []

        def run(argv: list[str], *_rest: object) -> tools.Finished:
            ran.append(argv)
            return tools.Finished(0, '')

        host = live.LiveHost()
        with host:
            self.own = str(host.path)  # for locks
            around = host.make_host_access(tree=self.tree, run=run)
            executor = step_executor.Executor(
                around, host.machine.libvirt, 0, lambda _text: None
            )
            with self.expected_errors():
                executor.attempt(step)
        self.assert_only_allowed()
        for argv in ran:
            self.assertIn(
                argv[0],
                (virtual_functions.DEFAULT_TOOL, '/usr/bin/nvidia-smi'),
            )
            address = argv[-1]
            self.assertEqual(address, str(values.PciAddress.parse(address)))

    @hypothesis.given(st.dictionaries(TEXTS, TEXTS), st.text())
    def test_whatever_is_remembered(
        self, functions: dict[str, str], text: str
    ) -> None:
        for content in (
            text,
            json.dumps({'mdevs': {}, 'functions': functions}),
            json.dumps({'mdevs': functions, 'functions': {}}),
        ):
            with fixtures.TempDir() as directory:
                (
                    pathlib.Path(directory.path) / state_files.VGPUS_FILE
                ).write_text(content)
                where = state.StateDirectory(directory.path)
                with self.expected_errors():
                    for address in state_files.read_vgpus(where).functions:
                        self.assertEqual(
                            address, str(values.PciAddress.parse(address))
                        )
