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

"""What holds the project together and no other test would miss.

The modules are parsed, not imported, so that an import within a function
counts as well.
"""

import ast
from collections.abc import Iterator
import configparser
import importlib
import io
import pathlib
import re

import fixtures
from oslo_config import cfg
from oslo_config import generator
import testtools

from nova_vgpu.conf import guest
from nova_vgpu.conf import opts
from nova_vgpu.conf import scheduling

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / 'nova_vgpu'
#: The pages of Horizon: a distribution of its own.
DASHBOARD = ROOT / 'dashboard' / 'nova_vgpu_dashboard'

# Not by a statement: its type hints are a package of their own.
YAML = importlib.import_module('yaml')

#: What each package may import, beside itself. The five that decide (plan,
#: publish, reconcile, diagnose, generate) and topology do not see the host.
BELOW: dict[str, tuple[str, ...]] = {
    'values': (),
    'exception': ('values',),
    'knowledge': ('values', 'exception'),
    'conf': ('values', 'exception', 'knowledge'),
    'host': ('values', 'exception', 'knowledge'),
    'plan': ('values', 'exception', 'knowledge'),
    'publish': ('values', 'exception', 'knowledge', 'plan'),
    'reconcile': ('values', 'exception', 'knowledge', 'plan'),
    'diagnose': ('values', 'exception', 'knowledge', 'plan'),
    'topology': ('values', 'exception', 'knowledge'),
    'generate': ('values', 'exception', 'knowledge', 'plan', 'topology'),
    # What the cloud's commands and nova-compute decide alike.
    'migration': ('values', 'knowledge'),
    # Two files of it are copied into guests.
    'guest': (),
    'placement': ('values', 'exception', 'conf', 'publish'),
    'cloud': (
        *('values', 'exception', 'knowledge', 'plan', 'publish'),
        *('placement', 'migration'),
    ),
    'osc': ('values', 'exception', 'cloud', 'migration'),
    'scheduler': ('values', 'exception', 'knowledge', 'conf', 'publish'),
}
#: From the bottom up: each imports all of those above and those before it.
ON_TOP = ('configuration', 'lifecycle', 'compute', 'cmd')
LAYERS = (*BELOW, *ON_TOP)
#: "is no X" for "is not an X" (but not "there is no X"), and pronouns in place
#: of who it is.
NOT_PLAIN = re.compile(
    r'(\bthere\s+)?\b(is|are)\s+no\s+(?!longer\b|more\b)'
    r'|\banew\b|\b(no|some|every)body\b',
    re.IGNORECASE,
)
#: Tests say what they test in their own words.
UNGUARDED = {PACKAGE / 'tests', DASHBOARD / 'tests'}
#: What of this project the pages of Horizon show or use.
SHOWN = ('values', 'exception', 'conf', 'cloud', 'generate')
#: Front ends beside the commands, and what imports nothing of substance.
TOP = frozenset({'__init__', '__main__'})

#: Who may import what is not ours, and use what else is not for everybody.
ONLY_IN = {
    'libvirt': (
        'host/libvirt_nodes.py',
        'host/guests.py',
        'host/mdevs.py',
        'sandbox/libvirt_host.py',
    ),
    'nova': ('compute/', 'scheduler/weigher.py'),
    'pynvml': ('host/nvml.py',),
    'nova_vgpu.compute': ('compute/',),
    'nova_vgpu.scheduler': ('scheduler/',),
    'openstack': (
        'placement/',
        'cloud/orders/flavor_store.py',
        'cloud/orders/image_store.py',
        'cloud/reader.py',
        'cloud/service_errors.py',
        'cloud/services.py',
    ),
    'keystoneauth1': ('placement/', 'cloud/service_errors.py'),
    'placement': ('sandbox/',),
    'waitress': ('sandbox/',),
    'prometheus_client': ('lifecycle/exporter.py',),
    'pyudev': ('host/systemd.py',),
    'requests': ('cloud/hosts/prometheus.py',),
    'nova_vgpu.sandbox': ('sandbox/', 'cmd/demo'),
}
MAY_OPEN_FILES = (
    'host/files.py',
    'host/state.py',
    'host/tools.py',
    'host/locks.py',
    'conf/sources.py',
    'guest/facts.py',
    'osc/output_files.py',
    'guest/setup_program.py',
    'sandbox/',
    'cmd/demo',
)

#: What the drivers of the kernel call the files that back-ends know.
TYPE_FILES = re.compile(
    r'mdev_supported_types|available_instances|mdev_bus|\bmdev_type\b'
    r'|creatable_vgpu_types|current_vgpu_type|vgpu_params|placement_id'
    r'|gpu_instance_id|\bbus/mdev\b|sriov_admin|vram_quota'
    r'|accelerator_partition_profile|memory_partition_mode'
)
BACKENDS = 'host/type_backends/'
#: Messages that name a file to operators, the program that is copied into
#: guests, and the simulated machine.
MAY_NAME_TYPE_FILES = (
    'diagnose/host_findings.py',
    'generate/passthrough.py',
    'guest/facts.py',
    'sandbox/',
)

#: What opens, lists, makes or changes files: functions and methods of paths.
OPENING = frozenset(
    {'open', 'io.open', 'os.open', 'os.listdir', 'os.scandir', 'os.walk'}
    | {'os.readlink', 'os.stat', 'os.mkdir', 'os.makedirs', 'os.symlink'}
    | {'os.remove', 'os.unlink', 'os.rename', 'os.replace', 'os.rmdir'}
    | {'os.path.exists', 'os.path.isdir', 'os.path.isfile', 'shutil.copy'}
    | {'shutil.copyfile', 'shutil.copytree', 'shutil.move', 'shutil.rmtree'}
)
OPENING_METHODS = frozenset(
    {'read_text', 'read_bytes', 'write_text', 'write_bytes', 'iterdir'}
    | {'rglob', 'mkdir', 'symlink_to', 'hardlink_to', 'touch', 'unlink'}
    | {'readlink', 'is_file', 'is_dir'}
)
OPENING_MODULES = frozenset({'tempfile', 'glob', 'fileinput'})

HEADER = (
    '#    Licensed under the Apache License, Version 2.0 (the "License"); you'
)
# A program says on its first line what runs it.
SHEBANG = re.compile(r'\A#!.*\n')
SECTIONS = frozenset(
    {'prelude', 'features', 'issues', 'upgrade', 'deprecations'}
    | {'critical', 'security', 'fixes', 'other'}
)


def list_modules(with_tests: bool = False) -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package by its path there, parsed."""
    for path in sorted(PACKAGE.rglob('*.py')):
        name = path.relative_to(PACKAGE).as_posix()
        if with_tests or not name.startswith('tests/'):
            yield name, ast.parse(path.read_text(), str(path))


def list_dashboard_modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the pages of Horizon, but for their tests."""
    for path in sorted(DASHBOARD.rglob('*.py')):
        if UNGUARDED.isdisjoint(path.parents):
            name = path.relative_to(DASHBOARD).as_posix()
            yield name, ast.parse(path.read_text(), str(path))


def list_texts() -> Iterator[pathlib.Path]:
    """Everything that users and contributors read, but for the tests."""
    for folder, pattern in (
        ('.', '*.rst'),
        ('ansible', '*.md'),
        ('ansible', '*.py'),
        ('ansible', '*.yml'),
        ('benchmarks', '*.py'),
        ('dashboard', '*.html'),
        ('dashboard', '*.py'),
        ('dashboard', '*.rst'),
        ('doc/source', '*.rst'),
        ('etc', '*'),
        ('lab', '*.py'),
        ('lab', '*.rst'),
        ('nova_vgpu', '*.py'),
        ('releasenotes/notes', '*.yaml'),
        ('tools', '*.sh'),
    ):
        top = ROOT / folder
        paths = top.glob(pattern) if folder == '.' else top.rglob(pattern)
        for path in sorted(paths):
            if path.is_file() and UNGUARDED.isdisjoint(path.parents):
                yield path


def find_not_plain(text: str) -> list[str]:
    return [m[0] for m in NOT_PLAIN.finditer(text) if m[1] is None]


def list_imports(tree: ast.Module) -> Iterator[str]:
    """The full name of everything that a module imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f'{"." * node.level}{node.module or ""}.{alias.name}'


def list_calls(tree: ast.Module) -> Iterator[str]:
    """The name of everything that a module calls, as far as it has one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def list_plans(tree: ast.Module) -> Iterator[ast.Call]:
    """Every call of the function that makes a plan."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            'mapper.make_plan'
        ):
            yield node


def is_of_configuration(call: ast.Call) -> bool:
    """Whether what is given to the mapper comes from a configuration."""
    if len(call.args) != 1 or call.keywords:
        return False
    given = call.args[0]
    return (
        isinstance(given, ast.Call)
        and isinstance(given.func, ast.Attribute)
        and given.func.attr == 'plan_input'
    )


def layer_of(name: str) -> str:
    """The layer of a module, by its path or by its dotted name."""
    return re.split(r'[/.]', name.removeprefix('nova_vgpu.'))[0]


class TestLayers(testtools.TestCase):
    def test_every_module_is_in_a_layer(self) -> None:
        layers = {layer_of(name) for name, _ in list_modules()}
        self.assertEqual(
            set(), layers - {*LAYERS, 'sandbox'} - TOP, 'unknown layers'
        )

    def test_imports_lead_only_downward(self) -> None:
        wrong = []
        for name, tree in list_modules():
            own = layer_of(name)
            if own not in LAYERS:
                continue
            below = {own, *BELOW.get(own, LAYERS[: LAYERS.index(own)])}
            wrong += [
                f'{name} imports {imported}'
                for imported in list_imports(tree)
                if imported.startswith('nova_vgpu.')
                and layer_of(imported) not in {*below, 'sandbox'}
            ]
        self.assertEqual([], wrong)

    def test_the_sandbox_takes_no_decisions(self) -> None:
        """It has the place of what is below the host: not its reader's."""
        wrong = [
            f'{name} imports {imported}'
            for name, tree in list_modules()
            if layer_of(name) == 'sandbox'
            for imported in list_imports(tree)
            if imported.startswith('nova_vgpu.')
            and layer_of(imported)
            not in ('values', 'exception', 'knowledge', 'host', 'sandbox')
        ]
        self.assertEqual([], wrong)

    def test_each_neighbour_is_met_in_one_place(self) -> None:
        wrong = [
            f'{name} imports {imported}'
            for name, tree in list_modules()
            for imported in list_imports(tree)
            for guarded, places in ONLY_IN.items()
            if f'{imported}.'.startswith(f'{guarded}.')
            and not name.startswith(places)
        ]
        self.assertEqual([], wrong)

    def test_nothing_outside_the_tests_imports_them(self) -> None:
        wrong = [
            f'{name} imports {imported}'
            for name, tree in list_modules()
            for imported in list_imports(tree)
            if imported.startswith(('nova_vgpu.tests', '.', 'testtools'))
        ]
        self.assertEqual([], wrong)


class TestDashboard(testtools.TestCase):
    """Pages show what the library decides, and ask through one module."""

    def setUp(self) -> None:
        super().setUp()
        if not DASHBOARD.is_dir():
            self.skipTest('the dashboard is not part of a wheel')

    def test_it_uses_what_is_for_the_whole_cloud(self) -> None:
        wrong = [
            f'{name} imports {imported}'
            for name, tree in list_dashboard_modules()
            for imported in list_imports(tree)
            if imported.startswith('nova_vgpu.')
            and layer_of(imported) not in SHOWN
        ]
        self.assertEqual([], wrong)

    def test_services_are_met_in_one_place(self) -> None:
        meeting = {
            name
            for name, tree in list_dashboard_modules()
            for imported in list_imports(tree)
            if imported.startswith(
                ('keystoneauth1.', 'openstack.', 'openstack_dashboard.api')
            )
        }
        self.assertEqual({'connection.py'}, meeting)

    def test_the_library_does_not_know_the_pages(self) -> None:
        wrong = [
            f'{name} imports {imported}'
            for name, tree in list_modules()
            for imported in list_imports(tree)
            if imported.startswith(('django', 'horizon', 'nova_vgpu_dash'))
        ]
        self.assertEqual([], wrong)


class TestPlans(testtools.TestCase):
    """All plans are made of the same input, by one function."""

    def test_one_place_puts_the_input_of_a_plan_together(self) -> None:
        makers = [
            name
            for name, tree in list_modules()
            for call in list_calls(tree)
            if call.rpartition('.')[2] == 'PlanInput'
        ]
        self.assertEqual(['values/planning.py'], makers)

    def test_the_mapper_is_given_nothing_else(self) -> None:
        asked = set()
        wrong = []
        for name, tree in list_modules():
            asked.update([name] if list(list_plans(tree)) else [])
            wrong += [
                f'{name}:{call.lineno}'
                for call in list_plans(tree)
                if not is_of_configuration(call)
            ]
            # By another name it could be given anything.
            wrong += [
                f'{name} imports {imported}'
                for imported in list_imports(tree)
                if imported == 'nova_vgpu.plan.mapper.make_plan'
            ]
        self.assertEqual([], wrong)
        self.assertIn('cmd/base.py', asked)
        self.assertIn('compute/planner.py', asked)

    def test_the_guard_sees_an_input_of_another_making(self) -> None:
        for text in (
            'mapper.make_plan(declaration, host)',
            'mapper.make_plan(mine)',
            'mapper.make_plan(given=mine)',
            'mapper.make_plan(dataclasses.replace(given, host=host))',
        ):
            (call,) = list_plans(ast.parse(text))
            self.assertFalse(is_of_configuration(call), text)


class TestOnePublisher(testtools.TestCase):
    """What a provider shall hold is decided in one place."""

    def list_calls(self, *names: str) -> Iterator[tuple[str, ast.Call]]:
        for module, tree in list_modules():
            for node in ast.walk(tree):
                if isinstance(node, ast.Call):
                    called = ast.unparse(node.func)
                    if called.rpartition('.')[2] in names:
                        yield module, node

    def test_inventories_are_made_in_one_module(self) -> None:
        wrong = [
            f'{module}: {ast.unparse(call)}'
            for module, call in self.list_calls('Inventory')
            if module != 'publish/inventories.py'
            # Those are read as they are: every field of an answer.
            and all(keyword.arg is not None for keyword in call.keywords)
        ]
        self.assertEqual([], wrong)

    def test_what_is_reserved_is_decided_in_one_module(self) -> None:
        wrong = [
            f'{module}: {ast.unparse(node)}'
            for module, tree in list_modules()
            if module not in ('publish/inventories.py', 'osc/gpu.py')
            for node in ast.walk(tree)
            if (isinstance(node, ast.keyword) and node.arg == 'reserved')
            or (isinstance(node, ast.Constant) and node.value == 'reserved')
        ]
        self.assertEqual([], wrong)

    def test_changes_of_placement_are_decided_in_one_folder(self) -> None:
        changes = (
            *('SetInventories', 'SetTraits', 'CreateProvider', 'Reshape'),
            *('DeleteProvider', 'CreateTrait', 'CreateResourceClass'),
        )
        made = {module for module, _ in self.list_calls(*changes)}
        # Patterns of a match statement are not calls.
        self.assertIn('publish/decision.py', made)
        self.assertEqual(
            [], [m for m in sorted(made) if not m.startswith('publish/')]
        )


def list_texts_of(tree: ast.Module) -> Iterator[str]:
    """Every text of a module that is not documentation of the module."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str):
            yield node.value


class TestTypeBackends(testtools.TestCase):
    """How the functions of a GPU get their types is known in one package."""

    def test_their_files_are_named_nowhere_else(self) -> None:
        wrong = [
            f'{name}: {text}'
            for name, tree in list_modules()
            if not name.startswith((BACKENDS, *MAY_NAME_TYPE_FILES))
            for text in list_texts_of(tree)
            if TYPE_FILES.search(text)
        ]
        self.assertEqual([], wrong)

    def test_nvidias_directory_is_named_nowhere_else(self) -> None:
        """Its name is the driver's too, so only paths below are looked at."""
        wrong = [
            f'{name}: {ast.unparse(node)}'
            for name, tree in list_modules()
            if name.startswith(('host/', 'lifecycle/', 'compute/'))
            and not name.startswith(BACKENDS)
            for node in ast.walk(tree)
            if isinstance(node, ast.Compare | ast.Call | ast.Tuple)
            and "'nvidia'" in ast.unparse(node)
            and re.search(r'\bwhere\b|entries|PCI', ast.unparse(node))
        ]
        self.assertEqual([], wrong)

    def test_every_back_end_is_looked_at(self) -> None:
        named = {
            text
            for name, tree in list_modules()
            if name.startswith(BACKENDS)
            for text in list_texts_of(tree)
        }
        for name in (
            *('mdev_supported_types', 'available_instances', 'mdev_type'),
            *('creatable_vgpu_types', 'current_vgpu_type'),
        ):
            self.assertIn(name, named)


class TestFiles(testtools.TestCase):
    def test_files_are_opened_in_one_place(self) -> None:
        wrong = []
        for name, tree in list_modules():
            if name.startswith(MAY_OPEN_FILES):
                continue
            calls = [
                call
                for call in list_calls(tree)
                if call in OPENING
                or ('.' in call and call.rpartition('.')[2] in OPENING_METHODS)
            ]
            modules = OPENING_MODULES & {*list_imports(tree)}
            wrong += [f'{name}: {what}' for what in (*calls, *modules)]
        self.assertEqual([], wrong)

    def test_the_guard_sees_what_opens_files(self) -> None:
        tree = ast.parse(
            'import os\n'
            'def f(path):\n    with open(path): os.listdir(path)\n'
            '    pathlib.Path(path).read_text()\n'
        )
        calls = set(list_calls(tree))
        self.assertIn('open', calls & OPENING)
        self.assertIn('os.listdir', calls & OPENING)
        self.assertIn('pathlib.Path(path).read_text', calls)

    def test_there_is_no_drawer_for_everything(self) -> None:
        names = {
            part.removesuffix('.py')
            for name, _ in list_modules(with_tests=True)
            for part in name.split('/')
        }
        self.assertEqual(
            set(), names & {'util', 'utils', 'helper', 'helpers', 'misc'}
        )

    def test_every_file_has_its_licence(self) -> None:
        found = [
            path
            for directory in (
                'ansible',
                'dashboard',
                'lab',
                'nova_vgpu',
                'doc',
                'releasenotes',
                'tools',
            )
            for path in (ROOT / directory).rglob('*.py')
        ]
        found.append(ROOT / 'setup.py')
        bare = [
            str(path.relative_to(ROOT))
            for path in found
            if path.stat().st_size
            and not SHEBANG.sub('', path.read_text()).startswith(HEADER)
        ]
        self.assertEqual([], bare)


class TestLanguage(testtools.TestCase):
    """Plain technical English in everything that a reader meets."""

    def test_what_is_read_is_said_plainly(self) -> None:
        found = [
            f'{path.relative_to(ROOT)}: {words}'
            for path in list_texts()
            for words in find_not_plain(path.read_text())
        ]
        self.assertEqual([], found)

    def test_the_guard_sees_what_is_not_plain(self) -> None:
        for text, is_plain in (
            ('it is no GPU', False),
            ('there are\nno longer any', True),
            ('There\nis no GPU', True),
            ('It is no longer used', True),
            ('These are no\n    vGPUs', False),
            ('read anew', False),
            ('Nobody has it', False),
            ('for everybody', False),
            ('somebody else was faster', False),
            ('is not a GPU', True),
        ):
            self.assertEqual(is_plain, not find_not_plain(text), text)


class TestPackage(testtools.TestCase):
    def test_every_entry_point_leads_somewhere(self) -> None:
        setup = configparser.ConfigParser()
        setup.read_string((ROOT / 'setup.cfg').read_text())
        found = 0
        for group, lines in setup['entry_points'].items():
            for line in lines.strip().splitlines():
                module, _, attribute = line.partition('=')[2].partition(':')
                if module.strip().startswith('nova_vgpu.compute'):
                    continue  # needs Nova: a functional test imports it
                loaded = importlib.import_module(module.strip())
                if attribute:  # a plugin of the client is a module
                    self.assertTrue(
                        callable(getattr(loaded, attribute.strip())),
                        f'{group}: {line}',
                    )
                found += 1
        self.assertNotEqual(0, found)

    def test_the_sample_configuration_has_every_option(self) -> None:
        self.useFixture(fixtures.FakeLogger())
        sample = _write_sample()
        options = {
            opts.GROUP: opts.device_options(),
            f'{opts.GROUP_PREFIX}<type>': opts.type_options('x'),
            scheduling.GROUP: scheduling.scheduler_options(),
            guest.GROUP: guest.guest_options(),
        }
        self.assertEqual(
            {
                group: {option.name for option in of_group}
                for group, of_group in options.items()
            },
            {group: names for group, names in sample.items() if names},
        )

    def test_every_release_note_has_legal_sections_only(self) -> None:
        notes = sorted((ROOT / 'releasenotes' / 'notes').glob('*.yaml'))
        self.assertNotEqual([], notes)
        for path in notes:
            note = YAML.safe_load(path.read_text())
            self.assertEqual(set(), set(note) - SECTIONS, path.name)
            for section, text in note.items():
                kind = str if section == 'prelude' else list
                self.assertIsInstance(text, kind, f'{path.name}: {section}')
                self.assertTrue(text, f'{path.name}: {section}')
            # reno finds a note by the 16 digits at the end of its name.
            self.assertRegex(path.stem, r'-[0-9a-f]{16}$')


def _write_sample() -> dict[str, set[str]]:
    """The options of the sample configuration by section."""
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf(
        [
            *('--namespace', 'nova_vgpu'),
            *('--namespace', 'nova_vgpu.guest'),
            *('--namespace', 'nova_vgpu.scheduler'),
        ],
        default_config_files=[],
    )
    output = io.StringIO()
    generator.generate(conf, output)
    found: dict[str, set[str]] = {}
    options: set[str] = set()
    for line in output.getvalue().splitlines():
        if section := re.fullmatch(r'\[(.+)\]', line):
            options = found.setdefault(section[1], set())
        elif option := re.match(r'#(\w+) =(?: |$)', line):
            options.add(option[1])
    return found
