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

"""The file by itself: any content, any place, any Python since 3.6."""

import argparse
import ast
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import typing

import fixtures

from nova_vgpu.guest import facts
from nova_vgpu.sandbox import guests
from nova_vgpu.tests.unit.guest import test_facts

FILE = pathlib.Path(facts.__file__)
SEED = 20
CASES = 10_000
PER_TREE = 50
#: What is in the place of a file or a directory.
PUTS = ('bytes', 'text', 'cut', 'flip', 'none', 'folder', 'fifo', 'loop')
WORDS = (
    *(b'0x10de', b'0x8086', b'0x030000', b'0x', b'\0', b'VF\0\x16', b'mode: '),
    *(b'GPU 00000000:06:00.0\n', b'\xff\xfe', b'\x1b[2J', b'is_virtual_gpu: '),
    *(b'10de  x\n\t1eb8  y\n', b'Model: ', b'flags\t: hypervisor', b'9' * 50),
)


class TestAnyContent(test_facts.FactsTestCase):
    """Random damages of machines: there is an answer, and it is JSON."""

    def setUp(self) -> None:
        super().setUp()
        self.random = random.Random(SEED)

    def test_trees(self) -> None:
        names = sorted(guests.MACHINES)
        kinds = set()
        for number in range(CASES // PER_TREE):
            machine = guests.MACHINES[names[number % len(names)]]
            self.use_new_root()
            guests.write_machine(machine, self.root)
            self.write('usr/share/misc/pci.ids', '10de  N\n\t1eb8  T4\n')
            self.write('/'.join(facts.OVERRIDES_FILE), 'is_virtual_gpu: no\n')
            paths = sorted(
                path for path in self.root.rglob('*') if not path.is_dir()
            )
            for _ in range(PER_TREE):
                path = self.random.choice(paths)
                self.damage(path)
                smi = self.make_text(machine.nvidia_smi or '')
                found = self.collect(smi)
                kinds |= {gpu.kind for gpu in found.gpus}
                text = json.dumps(facts.make_plain(found))
                self.assertNotIn('\\u001b', text, str(path))
            shutil.rmtree(self.root)
        # They were not all damaged beyond recognition.
        self.assertEqual({'physical', 'vgpu', 'vf', 'unknown'}, kinds)

    def test_configuration_spaces(self) -> None:
        wholes = [
            device.config[:256]
            for machine in guests.MACHINES.values()
            for device in machine.devices
        ]
        seen = set()
        for _ in range(CASES):
            data = bytearray(self.random.choice(wholes))
            for _ in range(self.random.randrange(8)):
                data[self.random.randrange(len(data))] ^= 0x5F
            cut = self.random.choice((256, 256, self.random.randrange(257)))
            found = facts.find_vendor_capabilities(bytes(data[:cut]))
            for payload in found.payloads:
                host = facts.parse_vgpu_capability(payload)
                seen.add((host is None, found.gap == ''))
                self.assertTrue(str(host).isprintable())
        self.assertEqual(4, len(seen))

    def test_random_bytes(self) -> None:
        for _ in range(CASES):
            data = self.random.randbytes(self.random.choice((64, 256)))
            facts.find_vendor_capabilities(data)
            facts.parse_vgpu_capability(b'VF' + data)

    def damage(self, path: pathlib.Path) -> None:
        put = self.random.choice(PUTS)
        old = b''
        if path.is_file() and not path.is_symlink():
            old = path.read_bytes()
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
        if put == 'folder':
            path.mkdir()
        elif put == 'fifo':
            os.mkfifo(path)
        elif put == 'loop':
            path.symlink_to(path.name)
        elif put != 'none':
            path.write_bytes(self.make_bytes(put, old))

    def make_bytes(self, put: str, old: bytes) -> bytes:
        if put == 'text':
            return b''.join(self.random.choices(WORDS, k=3)) + old[:200]
        if put == 'cut' and old:
            return old[: self.random.randrange(len(old))]
        if put == 'flip' and old:
            data = bytearray(old)
            data[self.random.randrange(len(data))] ^= 0xFF
            return bytes(data)
        return self.random.randbytes(self.random.randrange(300))

    def make_text(self, text: str) -> str:
        lines = text.splitlines(keepends=True)
        self.random.shuffle(lines)
        return ''.join(lines[: self.random.randrange(40)]) + '\x1b[2J'


class TestAlone(test_facts.FactsTestCase):
    def run_file(self, *command: str) -> typing.Any:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd='/'
        )
        self.assertEqual('', done.stderr)
        return json.loads(done.stdout)

    def test_it_runs_without_anything_else(self) -> None:
        guests.write_machine(guests.MACHINES['t4-vgpu'], self.root)
        copy = self.root / 'gpu.fact'
        shutil.copy(FILE, copy)
        found = self.run_file(
            *(sys.executable, '-I', '-S', str(copy)),
            *('--root', str(self.root)),
            *('--nvidia-smi', str(self.root / 'usr/bin/nvidia-smi')),
            *('--is-gpu-cluster', 'yes'),
        )
        guests_own = self.collect(
            guests.MACHINES['t4-vgpu'].nvidia_smi or '', is_gpu_cluster=True
        )
        self.assertEqual(facts.make_plain(guests_own), found)
        self.assertEqual(
            (True, True, 'licensed'),
            (found['has_gpu'], found['is_virtual_gpu'], found['licence']),
        )
        (gpu,) = found['gpus']
        self.assertEqual(
            'NVIDIA RTX Virtual Workstation', gpu['licence']['product']
        )
        self.assertEqual(
            {'is_gpu_cluster': {'value': True, 'source': '--is-gpu-cluster'}},
            found['overrides'],
        )

    def test_it_is_a_program(self) -> None:
        copy = self.root / 'gpu.fact'
        shutil.copy(FILE, copy)
        copy.chmod(0o755)
        (self.root / 'bin').mkdir()
        (self.root / 'bin/python3').symlink_to(sys.executable)
        # Not without arguments: that would read the machine of the tests.
        done = subprocess.run(
            [str(copy), '--help'],
            capture_output=True,
            text=True,
            check=True,
            env={'PATH': f'{self.root}/bin:/usr/bin:/bin'},
        )
        self.assertIn('ansible_local.gpu', done.stdout)

    def test_another_machine_is_not_asked_unless_told(self) -> None:
        """Programs of a copied tree are not run."""
        guests.write_machine(guests.MACHINES['t4-vgpu'], self.root)
        program = str(self.root / 'usr/bin/nvidia-smi')
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_vgpu.guest.facts._NVIDIA_SMI', ('/none', program)
            )
        )
        self.assertEqual(program, facts.find_nvidia_smi())
        for option, expected in (
            ([], 'unknown'),
            (['--nvidia-smi', ''], 'unknown'),
            (['--nvidia-smi', program], 'licensed'),
        ):
            parser = argparse.ArgumentParser()
            facts.add_arguments(parser)
            found = facts.collect_as_asked(
                parser.parse_args(['--root', str(self.root), *option])
            )
            self.assertEqual(expected, found.licence, str(option))

    def test_a_wrong_argument(self) -> None:
        done = subprocess.run(
            [sys.executable, str(FILE), '--is-virtual-gpu', 'perhaps'],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((2, ''), (done.returncode, done.stdout))
        self.assertIn("'perhaps' is not yes or no", done.stderr)

    def test_it_imports_the_standard_library_only(self) -> None:
        tree = ast.parse(FILE.read_text())
        imported = {
            name.name.partition('.')[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for name in node.names
        }
        self.assertEqual(set(), imported - sys.stdlib_module_names)
        self.assertFalse(
            any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
        )

    def test_it_is_python_3_6(self) -> None:
        text = FILE.read_text()
        ast.parse(text, feature_version=(3, 6))
        # These came later; nothing parses them.
        for word in (
            *('capture_output', 'dataclasses', 'removeprefix', 'removesuffix'),
            *('missing_ok', 'text=True', 'strict=True', 'functools.cache'),
        ):
            self.assertNotIn(word, text)
