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

"""The documentation says what the code does."""

import ast
from collections.abc import Iterator
import configparser
import contextlib
import importlib
import io
import json
import os
import pathlib
import pkgutil
import re
import shlex
import shutil
import tempfile
import textwrap
import typing
from unittest import mock

from oslo_config import cfg
import testtools

from nova_vgpu import configuration
from nova_vgpu import values
from nova_vgpu.cloud.usage import reasons
from nova_vgpu.cmd import main
from nova_vgpu.conf import scheduling
from nova_vgpu.host import files
from nova_vgpu.host import source as host_source
from nova_vgpu.knowledge import traits
from nova_vgpu.knowledge import vendors
from nova_vgpu.lifecycle import agent
from nova_vgpu.lifecycle import exporter
from nova_vgpu.plan import mapper
from nova_vgpu.plan import mig_problems
from nova_vgpu.plan import readiness
from nova_vgpu.publish import providers
from nova_vgpu.sandbox import boards
from nova_vgpu.sandbox import host as simulation
from nova_vgpu.sandbox import pcie_layout
from nova_vgpu.sandbox import tree
from nova_vgpu.tests import hosts
from nova_vgpu.tests import plans

ROOT = pathlib.Path(__file__).parents[3]
PACKAGE = ROOT / 'nova_vgpu'
SOURCE = ROOT / 'doc' / 'source'
EXAMPLES = SOURCE / 'examples'
FLAVORS = EXAMPLES / 'flavors.ini'
INTEL = EXAMPLES / 'intel-vf-profile.ini'
INTEL_QUOTA = EXAMPLES / 'intel-vf-quota.ini'
AMD = EXAMPLES / 'amd-vf-profile.ini'
MIXED = EXAMPLES / 'mixed.ini'
NODE = 'compute1'

Summary = dict[str, tuple[str, str, int]]


class Expected(typing.NamedTuple):
    """What the text says about a configuration on the demonstration's host.

    ``serving`` has the type, the resource class and the total of every GPU
    with an inventory; ``problems`` the severities, codes and subjects.
    """

    serving: Summary
    problems: tuple[tuple[str, str, str], ...] = ()


BOTH_T4 = {
    '0000:84:00.0': ('T4-2Q', 'VGPU', 8),
    '0000:85:00.0': ('T4-2Q', 'VGPU', 8),
}
WORKSTATION = {'0000:41:00.0': ('A40-8Q', 'CUSTOM_WORKSTATION', 4)}
A40_AND_L40S = {
    '0000:41:00.0': ('A40-8Q', 'VGPU', 6),
    '0001:c8:00.0': ('L40S-24Q', 'VGPU', 2),
}
T4_ADDRESSES = '[vgpu_T4-2Q]device_addresses'

EXPECTED = {
    'one-type.conf': Expected(BOTH_T4),
    'several-types.conf': Expected(
        BOTH_T4 | A40_AND_L40S, (('error', 'vfs-off', '0000:c1:00.0'),)
    ),
    'three-spellings.conf': Expected(BOTH_T4 | A40_AND_L40S),
    'some-functions.conf': Expected(
        {'0000:41:00.0': ('A40-8Q', 'VGPU', 3)},
    ),
    'shares.conf': Expected(
        {
            '0000:41:00.0 as A40-8Q': ('A40-8Q', 'VGPU', 4),
            '0000:41:00.0 as A40-8C': ('A40-8C', 'VGPU', 2),
        },
    ),
    'shares-too-many.conf': Expected(
        # Less than declared, because of what the other is to have.
        {
            '0000:41:00.0 as A40-8Q': ('A40-8Q', 'VGPU', 3),
            '0000:41:00.0 as A40-8C': ('A40-8C', 'VGPU', 2),
        },
        (('fatal', 'shares-do-not-fit', '0000:41:00.0'),),
    ),
    'every-option.conf': Expected(WORKSTATION),
    'whole-gpus.conf': Expected(
        {'0000:41:00.0': ('A40-8Q', 'VGPU', 6)},
    ),
    'quotas.conf': Expected(
        {'0001:c8:00.0': ('L40S-24Q', 'CUSTOM_L40S_24Q', 2)},
    ),
    'ahead.conf': Expected({'0001:c8:00.0': ('L40S-24Q', 'VGPU', 2)}),
    'nova-names.conf': Expected(WORKSTATION),
    'for-novas-driver.conf': Expected(
        BOTH_T4 | {'0000:41:00.0': ('A40-8Q', 'VGPU', 6)},
        (
            # Nova's driver gives nothing to GPUs that are not listed.
            ('error', 'type-not-offered', '0000:c1:00.0'),
            ('error', 'type-not-offered', '0001:c8:00.0'),
        ),
    ),
    'conflicting.conf': Expected(
        {'0000:84:00.0': ('T4-2Q', 'VGPU', 8)},
        (('fatal', 'gpu-under-two-types', '0000:85:00.0'),),
    ),
    'mistyped.conf': Expected(
        {},
        (
            ('fatal', 'not-on-host', T4_ADDRESSES),
            ('fatal', 'malformed-address', T4_ADDRESSES),
            ('fatal', 'not-a-gpu', T4_ADDRESSES),
            ('warning', 'section-not-enabled', '[vgpu_A40-8]'),
            ('warning', 'type-unused', '[devices]enabled_vgpu_types'),
        ),
    ),
}


class DocumentationTestCase(testtools.TestCase):
    """Has the pages, and a directory of its own."""

    def setUp(self) -> None:
        super().setUp()
        if not SOURCE.is_dir():
            self.skipTest('the documentation is not part of a wheel')
        self.pages = {
            str(path.relative_to(SOURCE)): path.read_text()
            for path in SOURCE.rglob('*.rst')
        }
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        # In place of what there is in /etc/nova.
        self.config_dir = self.directory / 'conf.d'
        self.config_dir.mkdir()

    def write_host(self, simulated: simulation.SimulatedHost) -> str:
        root = self.directory / 'sys'
        tree.write_tree(simulated, root)
        return str(root)

    def make_plan(self, sysfs_root: str, config: pathlib.Path) -> values.Plan:
        loaded = configuration.load([str(config)], [str(self.config_dir)])
        source = host_source.HostSource(sysfs_root=sysfs_root)
        host = source.read_host()
        return mapper.make_plan(
            loaded.plan_input(host, source.read_modes(host))
        )


class TestExamples(DocumentationTestCase):
    def test_each_gives_what_the_text_says(self) -> None:
        root = self.write_host(simulation.demo_host())
        for name, expected in EXPECTED.items():
            plan = self.make_plan(root, EXAMPLES / name)
            self.assertEqual(expected.serving, _serving(plan), name)
            found = tuple(
                (p.severity.value, p.code, p.subject) for p in plan.problems
            )
            self.assertEqual(expected.problems, found, name)

    def test_none_is_without_an_expectation(self) -> None:
        names = {path.name for path in EXAMPLES.glob('*.conf')}
        self.assertEqual(set(EXPECTED), names)

    def test_each_is_on_a_page(self) -> None:
        text = '\n'.join(self.pages.values())
        shown = set(re.findall(r'literalinclude:: \.\./examples/(\S+)', text))
        if '.. flavor::' in text:
            shown.add(FLAVORS.name)
        self.assertEqual({path.name for path in EXAMPLES.iterdir()}, shown)

    def test_configuration_is_nowhere_else(self) -> None:
        written = re.compile(
            r'^\s*(\[(devices|vgpu_|mdev_).*\]|\w+_types\s*=.*)$',
            re.MULTILINE,
        )
        for name, text in self.pages.items():
            self.assertIsNone(written.search(text), name)

    def test_profile_of_intel_gpus(self) -> None:
        card = simulation.GPU(
            values.PciAddress.parse('03:00.0'), boards.ARC_PRO_B60
        )
        root = self.write_host(simulation.SimulatedHost((card,)))
        for profile in (INTEL, INTEL_QUOTA):
            (problem,) = self.make_plan(root, profile).problems
            self.assertEqual('not-provisioned', problem.code)
            self.assertIn('0 of 12', problem.message)

    def test_types_of_different_sizes_on_one_gpu(self) -> None:
        text = (EXAMPLES / 'mixed-host.txt').read_text()
        plan = self.make_plan(self.write_host(pcie_layout.parse(text)), MIXED)
        self.assertEqual((), plan.problems)
        self.assertEqual(
            {
                'A100D-2-20C': 3,
                'A100D-1-10C': 1,
                'A10-4Q': 3,
                'A10-6Q': 2,
            },
            {name: total for name, _, total in _serving(plan).values()},
        )

    def test_models_that_a_simulated_host_can_have(self) -> None:
        page = self.pages['admin/install.rst']
        (names,) = re.findall(r'The models\nare (.+?)\. For', page, re.DOTALL)
        for name in re.findall(r'``(\w+)``', names):
            card = pcie_layout.parse(f'0000:03:00.0 {name} group=1').gpus[0]
            self.assertIsInstance(card.board, boards.Board, name)

    def test_profile_of_amd_gpus(self) -> None:
        card = hosts.mi300x('0c:00.0', 1, 'SPX/NPS1')
        root = self.write_host(simulation.SimulatedHost((card,)))
        (problem,) = self.make_plan(root, AMD).problems
        self.assertEqual('vfs-differ', problem.code)
        self.assertIn('options gim vf_num=8', problem.cure)

    def test_every_option_is_in_the_example_of_every_option(self) -> None:
        parser = configparser.ConfigParser()
        # Some are for one kind of GPU only.
        parser.read([EXAMPLES / 'every-option.conf', INTEL, AMD])
        written = {
            option
            for section in parser.sections()
            for option in parser[section]
        }
        opts = importlib.import_module('nova_vgpu.conf.opts')
        every = {
            option.dest for _, group in opts.list_opts() for option in group
        }
        self.assertEqual(every, written)


class TestScheduling(DocumentationTestCase):
    """A functional test gets the figures of the page."""

    def setUp(self) -> None:
        super().setUp()
        self.path = EXAMPLES / 'scheduling.ini'
        self.conf = cfg.ConfigOpts()
        self.conf(['--config-file', str(self.path)])
        scheduling.register_opts(self.conf)

    def test_the_example_is_valid(self) -> None:
        rules = scheduling.read_rules(self.conf)
        self.assertEqual(values.Order.PACK, rules.hosts.default)
        t4 = ['CUSTOM_VGPU_TYPE_T4_2Q']
        for orders in (rules.hosts, rules.gpus):
            self.assertEqual(values.Order.SPREAD, orders.find(t4, ['VGPU']))

    def test_the_example_has_every_option(self) -> None:
        parser = configparser.ConfigParser()
        parser.read(self.path)
        every = {option.dest for option in scheduling.scheduler_options()}
        self.assertEqual(
            every | {'weight_classes'}, set(parser[scheduling.GROUP])
        )
        page = self.pages['admin/scheduling.rst']
        self.assertEqual(set(), {name for name in every if name not in page})


class TestFlavors(DocumentationTestCase):
    """A functional test builds a server with each of them."""

    def setUp(self) -> None:
        super().setUp()
        self.flavors = configparser.RawConfigParser(delimiters=('=',))
        self.flavors.optionxform = str  # type: ignore[method-assign,assignment]
        self.flavors.read(FLAVORS)

    def test_each_is_on_the_page_once(self) -> None:
        shown = re.findall(
            r'\.\. flavor:: (\S+)', self.pages['admin/flavors.rst']
        )
        self.assertEqual(sorted(self.flavors.sections()), sorted(shown))

    def test_every_trait_is_one_that_a_provider_has(self) -> None:
        root = self.write_host(simulation.demo_host())
        there = {
            trait
            for name in ('several-types.conf', 'every-option.conf')
            for provider in plans.list_providers(
                self.make_plan(root, EXAMPLES / name), NODE
            )
            for trait in provider.traits
        }
        asked = {
            key.partition(':')[2]
            for name in self.flavors.sections()
            for key in self.flavors[name]
            if 'trait' in key
        }
        self.assertEqual(set(), asked - there)
        self.assertNotEqual(set(), asked)


class TestIslands(DocumentationTestCase):
    """A functional test boots servers with the lines of the page."""

    def test_devices_have_the_traits_that_the_command_shows(self) -> None:
        text = (EXAMPLES / 'gpudirect-host.txt').read_text()
        root = self.write_host(pcie_layout.parse(text))
        terminal = io.StringIO()
        main.NovaVGPU(stdout=terminal, stderr=io.StringIO()).run(
            [f'--sysfs-root={root}', 'topology', '-f', 'json']
        )
        shown = {
            row['Address'].rpartition('.')[0]: row['Traits']
            for row in json.loads(terminal.getvalue())
        }
        lines = (EXAMPLES / 'gpudirect.ini').read_text()
        specs = [
            json.loads(line)
            for line in re.findall(r'(?m)^device_spec = (.+)$', lines)
        ]
        written = {
            spec['address'].rpartition('.')[0]: spec['traits'].split(',')
            for spec in specs
        }
        self.assertEqual(shown, written)


class TestTraits(DocumentationTestCase):
    def test_every_prefix_is_explained(self) -> None:
        explained = re.findall(
            r'^   :(CUSTOM_\w+):', self.pages['admin/traits.rst'], re.MULTILINE
        )
        self.assertEqual(sorted(traits.OWN_PREFIXES), sorted(explained))


class TestProblems(DocumentationTestCase):
    def test_every_code_is_explained_under_its_severity(self) -> None:
        explained: set[tuple[str, str]] = set()
        severity = ''
        for title, line in re.findall(
            r'^(\S+)\n(-{3,}|~{3,})$',
            self.pages['admin/problems.rst'],
            re.MULTILINE,
        ):
            if line.startswith('-'):
                severity = title.lower()
            else:
                explained.add((severity, title))
        self.assertEqual(_codes_in_package(), explained)

    def test_every_code_can_be_linked_to(self) -> None:
        page = self.pages['admin/problems.rst']
        for _, code in _codes_in_package():
            self.assertIn(f'.. _problem-{code}:\n\n{code}\n', page)


class TestFindings(DocumentationTestCase):
    """The page of the doctor has every code, and no other."""

    def setUp(self) -> None:
        super().setUp()
        page = self.pages['admin/doctor.rst']
        self.explained = re.findall(r'^([a-z-]+)\n~+$', page, re.MULTILINE)
        self.linked = re.findall(r':ref:`\S+ <problem-([a-z-]+)>`', page)

    def test_every_code_is_explained(self) -> None:
        self.assertEqual(sorted(_codes_of_findings()), sorted(self.explained))

    def test_every_obstacle_is_linked_to(self) -> None:
        codes = readiness.OBSTACLES | mig_problems.CODES
        self.assertEqual(sorted(codes), sorted(self.linked))


class TestFindingsInTheCloud(DocumentationTestCase):
    """The same for the doctor of a cloud."""

    def test_every_code_is_explained(self) -> None:
        explained = re.findall(
            r'^([a-z-]+)\n~+$',
            self.pages['cli/openstack-doctor.rst'],
            re.MULTILINE,
        )
        self.assertEqual(sorted(_codes_in_cloud()), sorted(explained))


class TestStatesOfServers(DocumentationTestCase):
    """The table of states has every code with its state, and no other."""

    def test_every_code_is_explained_with_its_state(self) -> None:
        _, _, section = self.pages['cli/openstack.rst'].partition(
            '.. _server-state:'
        )
        rows = re.findall(
            r'^   \* -(?: ``([a-zA-Z ]+)``)?\n     - ``([a-z-]+)``\n',
            section.partition('\nUsage\n')[0],
            re.MULTILINE,
        )
        state, explained = '', []
        for named, code in rows:
            state = named or state
            explained.append((state, code))
        self.assertEqual(
            [code.value for code in reasons.Code],
            sorted(
                (code for _, code in explained),
                key=[code.value for code in reasons.Code].index,
            ),
        )
        self.assertEqual(
            [state.value for state in reasons.State],
            list(dict.fromkeys(state for state, _ in explained)),
        )


class TestLog(DocumentationTestCase):
    """The page of the log has every message of the driver, and no other."""

    def setUp(self) -> None:
        super().setUp()
        self.messages = _messages_of_driver()
        self.explained = [
            (level, ' '.join(text.split()))
            for level, text in re.findall(
                r'^(INFO|WARNING|ERROR|EXCEPTION) ``([^`]+)``$',
                self.pages['admin/log.rst'],
                re.MULTILINE,
            )
        ]

    def test_every_message_is_explained(self) -> None:
        for message in self.messages:
            self.assertTrue(
                any(
                    level in message.levels
                    and re.search(message.pattern, text)
                    for level, text in self.explained
                ),
                f'{message} is not on the page',
            )

    def test_every_explanation_has_its_message(self) -> None:
        for level, text in self.explained:
            self.assertTrue(
                any(
                    level in message.levels
                    and re.fullmatch(message.pattern, text)
                    for message in self.messages
                ),
                f'nothing says {text} with {level}',
            )

    def test_they_are_found_in_the_code(self) -> None:
        found = {message.text for message in self.messages}
        for text in (
            '… […]',
            'Could not …',
            'Reconciled: …',
            'a vGPU is allocated outside of an operation',
            'remove mdev …, which is …',
            'vGPU … of … is gone, and GPU … has no room to create it again.',
        ):
            self.assertIn(text, found)


METRICS = exporter.METRICS


class TestMetrics(DocumentationTestCase):
    def test_the_page_has_every_metric_with_its_labels(self) -> None:
        page = self.pages['admin/agent.rst']
        explained = {
            name: tuple(re.findall(r'``(\w+)``', labels))
            for name, labels in re.findall(
                r'^   \* - ``(nova_vgpu_\w+)``\n     -(.*)$',
                page,
                re.MULTILINE,
            )
        }
        self.assertEqual(
            {f'nova_vgpu_{name}': labels for _, name, labels, _ in METRICS},
            explained,
        )

    def test_nothing_else_on_the_page_is_called_one(self) -> None:
        named = set(
            re.findall(r'nova_vgpu_\w+', self.pages['admin/agent.rst'])
        )
        self.assertEqual({f'nova_vgpu_{m[1]}' for m in METRICS}, named)

    def test_the_states_of_gpus_are_explained(self) -> None:
        families = exporter.make_families(
            values.DriftReport(values.Plan(), values.Host(), values.Usage()),
            agent.Tally(),
        )
        states = {
            sample.labels['state']
            for family in families
            for sample in family.samples
            if sample.name == 'nova_vgpu_gpus'
        }
        for word in (*states, *agent.OUTCOMES):
            self.assertIn(f'``{word}``', self.pages['admin/agent.rst'])


class TestBoot(DocumentationTestCase):
    def test_the_page_has_every_file_that_is_written(self) -> None:
        listed = re.findall(
            r'^  \* ``(bus/\S+)``$', self.pages['admin/boot.rst'], re.MULTILINE
        )
        address = '0000:41:00.0'
        tree = files.Files(str(self.directory))
        for path in listed:
            path = path.replace('<address>', address).replace('<n>', '1')
            parts = path.split('/')
            # Not there, and not refused.
            self.assertRaises(FileNotFoundError, tree.write, '0', *parts)
        self.assertEqual(len(files.WRITABLE), len(listed))

    def test_the_page_names_the_units(self) -> None:
        for path in (ROOT / 'etc' / 'systemd').iterdir():
            self.assertIn(path.name, self.pages['admin/boot.rst'])


class TestCommandLines(DocumentationTestCase):
    """Commands and options that pages name exist."""

    def setUp(self) -> None:
        super().setUp()
        self.program = main.NovaVGPU(io.StringIO(), io.StringIO())

    def list_lines(self) -> Iterator[tuple[str, list[str]]]:
        """The page, and the words after the name of the program."""
        for name, text in self.pages.items():
            for line in (
                *re.findall(r':command:`nova-vgpu\s+([^`]+)`', text),
                *re.findall(
                    r'^ +[$#] .*\bnova-vgpu (.+)$', text, re.MULTILINE
                ),
                *re.findall(
                    r'\.\. command-output:: (.+)$', text, re.MULTILINE
                ),
            ):
                yield name, shlex.split(line.partition('>')[0])

    def test_the_configuration_of_a_whole_gpu_is_what_is_printed(
        self,
    ) -> None:
        page = self.pages['admin/passthrough.rst']
        (command,) = re.findall(
            r'\$ nova-vgpu (config generate .+)\n\n'
            r'\.\. literalinclude:: \.\./examples/whole-gpus\.conf',
            page,
        )
        printed = io.StringIO()
        main.NovaVGPU(stdout=printed, stderr=io.StringIO()).run(
            [
                f'--sysfs-root={self.write_host(simulation.demo_host())}',
                f'--config-dir={self.config_dir}',
                *shlex.split(command),
            ]
        )
        self.assertEqual(
            (EXAMPLES / 'whole-gpus.conf').read_text(), printed.getvalue()
        )

    def test_each_is_understood(self) -> None:
        seen = set()
        for page, words in self.list_lines():
            _, rest = self.program.parser.parse_known_args(words)
            factory, name, _ = self.program.command_manager.find_command(rest)
            parser = factory(self.program, None).get_parser(name)
            known = {
                *parser._option_string_actions,
                *self.program.parser._option_string_actions,
            }
            given = {
                word.partition('=')[0] for word in words if word[:2] == '--'
            }
            self.assertEqual(set(), given - known, f'{words} in {page}')
            seen.add(name)
        self.assertIn('provider hand-back', seen)


class TestReadme(DocumentationTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.text = (ROOT / 'README.rst').read_text()

    def test_the_example_is_real(self) -> None:
        root = self.write_host(simulation.demo_host())
        configuration, output = _literal_blocks(self.text, 'Example')
        config = self.directory / 'readme.conf'
        config.write_text(configuration)
        command, _, printed = output.partition('\n')
        program, *words = shlex.split(command.removeprefix('$ '))
        self.assertEqual('nova-vgpu', program)
        options = [
            f'--sysfs-root={root}',
            f'--config-file={config}',
            f'--config-dir={self.config_dir}',
        ]
        terminal = io.StringIO()
        with mock.patch.dict(os.environ, COLUMNS='80'):
            main.NovaVGPU(stdout=terminal, stderr=terminal).run(
                [*options, *words]
            )
        self.assertEqual(terminal.getvalue().strip(), printed.strip())

    def test_it_is_plain_restructuredtext(self) -> None:
        self.assertNotRegex(self.text, r':[\w-]+:`')
        self.assertNotRegex(self.text, r'(?m)^\.\. (toctree|literalinclude)')

    def test_files_are_there(self) -> None:
        named = re.findall(r'``((?:tools|doc|\w+\.rst)[\w/.]*)``', self.text)
        for path in named:
            if path != 'doc/build/html':
                self.assertTrue((ROOT / path).exists(), path)
        self.assertIn('tools/demo.sh', named)


class TestContributorGuide(DocumentationTestCase):
    def test_every_name_is_there(self) -> None:
        for page, text in self.pages.items():
            for name in re.findall(r'``(nova_vgpu(?:\.\w+)+)``', text):
                self.assertTrue(_resolves(name), f'{name} in {page}')

    def test_the_walk_names_every_layer(self) -> None:
        text = self.pages['contributor/architecture.rst']
        packages = {
            path.parent.name
            for path in PACKAGE.glob('*/__init__.py')
            if path.parent.name != 'tests'
        }
        for package in packages:
            self.assertIn(f'``nova_vgpu.{package}``', text)

    def test_every_tox_environment_is_explained(self) -> None:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(ROOT / 'tox.ini')
        environments = {
            section.removeprefix('testenv:')
            for section in parser.sections()
            if section.startswith('testenv:')
        }
        explained = set(
            re.findall(
                r'``tox -e ([\w-]+)', self.pages['contributor/testing.rst']
            )
        )
        self.assertEqual(environments | {'py3'}, explained)

    def test_the_exemplary_vendor_is_all_that_it_takes(self) -> None:
        board = boards.Board(
            vendor=0xACE0,
            device=0x0001,
            subsystem=(0xACE0, 0x0001),
            driver='acme',
            types=tuple(
                boards.BoardType(f'acme-ray-{gib}', None, gib * 1024, most, '')
                for gib, most in ((4, 4), (8, 2))
            ),
        )
        address = values.PciAddress.parse('0000:21:00.0')
        root = self.write_host(
            simulation.SimulatedHost((simulation.GPU(address, board),))
        )
        config = self.directory / 'acme.conf'
        config.write_text('[devices]\nenabled_vgpu_types = acme-ray-4\n')
        self.assertEqual({}, _serving(self.make_plan(root, config)))
        with _vendor(EXAMPLES / 'acme.py', self.directory):
            plan = self.make_plan(root, config)
            (provider,) = plans.list_providers(plan, NODE)
        self.assertEqual((), plan.problems)
        self.assertEqual(4, provider.total)
        self.assertEqual(
            (
                'CUSTOM_GPU_MODEL_RAY',
                'CUSTOM_GPU_VENDOR_ACME',
                'CUSTOM_VGPU_FRAMEBUFFER_4G',
                'CUSTOM_VGPU_TYPE_ACME_RAY_4',
                'OWNER_NOVA',
            ),
            provider.traits,
        )


def _serving(plan: values.Plan) -> Summary:
    summary: Summary = {}
    for assigned in plan.assignments:
        provider = providers.make_provider(assigned, NODE)
        if provider is not None and assigned.type is not None:
            short = (assigned.type.name or '').split()[-1]
            share = assigned.share
            of_share = f' as {share.label}' if share else ''
            summary[f'{assigned.gpu}{of_share}'] = (
                short,
                provider.resource_class,
                provider.total,
            )
    return summary


def _literal_blocks(text: str, title: str) -> list[str]:
    """The literal blocks of one section."""
    section = text.partition(f'\n{title}\n')[2]
    section = re.split(r'\n\n[^\n ]+[^\n]*\n-{3,}\n', section)[0]
    return [
        textwrap.dedent(block)
        for block in re.findall(
            r'^::\n\n((?:  .*\n|\n)+)', section, re.MULTILINE
        )
    ]


def _resolves(name: str) -> bool:
    """Whether a dotted name is a module or something in one.

    The driver needs Nova, which is not here: it is looked up in its source.
    """
    if name.startswith('nova_vgpu.compute.'):
        return _is_written(*name.split('.')[1:])
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def _is_written(*parts: str) -> bool:
    """Whether the source has this module, or this name in it."""
    path, rest = PACKAGE, list(parts)
    while rest and (path / rest[0]).is_dir():
        path /= rest.pop(0)
    if rest and (path / f'{rest[0]}.py').is_file():
        path /= f'{rest.pop(0)}.py'
    else:
        path /= '__init__.py'
    body = ast.parse(path.read_text()).body
    for name in rest:
        found = [node for node in body if name in _names_of(node)]
        if not found:
            return False
        body = getattr(found[0], 'body', [])
    return True


def _names_of(statement: ast.stmt) -> set[str]:
    """What a definition or an assignment names."""
    if isinstance(statement, ast.Assign):
        return {ast.unparse(target) for target in statement.targets}
    if isinstance(statement, ast.AnnAssign):
        return {ast.unparse(statement.target)}
    name = getattr(statement, 'name', None)
    return {name} if isinstance(name, str) else set()


@contextlib.contextmanager
def _vendor(module: pathlib.Path, directory: pathlib.Path) -> Iterator[None]:
    """A module among the vendors, for as long as the context lasts."""
    package = directory / 'vendors'
    package.mkdir()
    shutil.copy(module, package)
    importlib.invalidate_caches()
    with (
        mock.patch.object(
            vendors, '__path__', [*vendors.__path__, str(package)]
        ),
        mock.patch.dict('sys.modules'),
    ):
        vendors.list_vendors.cache_clear()
        try:
            yield
        finally:
            vendors.list_vendors.cache_clear()


def _codes_in_package() -> set[tuple[str, str]]:
    """The severity and the code of every problem that the code can make.

    Problems are made by calling ``Problem`` itself, or something with a
    parameter or a field ``code`` that ends up in one. What a helper makes has
    the severity that its body names; what only carries a code, as an obstacle
    does, is an error of its GPU.
    """
    found: set[tuple[str, str]] = set()
    for path in PACKAGE.rglob('*.py'):
        # The findings in a cloud have a page of their own.
        elsewhere = PACKAGE / 'tests', PACKAGE / 'cloud'
        if any(path.is_relative_to(folder) for folder in elsewhere):
            continue
        module = ast.parse(path.read_text())
        makers = {'Problem': (1, '')} | dict(_makers(module))
        for call in ast.walk(module):
            if not isinstance(call, ast.Call):
                continue
            called = ast.unparse(call.func).rpartition('.')[2]
            position, severity = makers.get(called, (len(call.args), ''))
            given = call.args[position : position + 1]
            if given and isinstance(given[0], ast.Constant):
                made = severity or _severity(call)
                found.add((made, str(given[0].value)))
    return found


def _makers(module: ast.Module) -> Iterator[tuple[str, tuple[int, str]]]:
    """What takes a code, where it takes it, and the severity it gives it."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            severity = _severity(node)
        elif isinstance(node, ast.ClassDef) and node.name != 'Problem':
            names = [
                ast.unparse(field.target)
                for field in node.body
                if isinstance(field, ast.AnnAssign)
            ]
            severity = values.Severity.ERROR.value
        else:
            continue
        if 'code' in names:
            yield node.name, (names.index('code'), severity)


def _severity(node: ast.AST) -> str:
    named = re.search(r'\bSeverity\.([A-Z]+)\b', ast.unparse(node))
    return values.Severity[named[1]].value if named else ''


def _codes_of_findings() -> set[str]:
    """The codes that are written where findings are made."""
    return {
        str(call.args[1].value)
        for folder in (
            'plan',
            'publish',
            'diagnose',
            'reconcile',
            'generate',
            'cmd',
        )
        for path in (PACKAGE / folder).glob('*.py')
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == 'values.Finding'
        and isinstance(call.args[1], ast.Constant)
    }


def _codes_in_cloud() -> set[str]:
    """The codes in the modules of findings: words with a hyphen."""
    return {
        node.value
        for path in (PACKAGE / 'cloud' / 'diagnose').glob('*_findings.py')
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r'[a-z]+(-[a-z]+)+', node.value)
    }


class _Message(typing.NamedTuple):
    """Something that the driver says, with … where it is filled in."""

    text: str
    levels: frozenset[str]

    @property
    def pattern(self) -> str:
        return '.*'.join(re.escape(part) for part in self.text.split('…'))


def _messages_of_driver() -> list[_Message]:
    """What the driver logs and raises, and what it puts into that.

    A text is the first argument of something that logs, or the first argument
    or the ``reason`` of something that is raised. Steps are logged by their
    ``__str__``.
    """
    found: list[_Message] = []
    for path in sorted((PACKAGE / 'compute').glob('*.py')):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                levels = _levels(ast.unparse(node.func))
                found.extend(_texts(node, levels))
            elif isinstance(node, ast.Raise) and isinstance(
                node.exc, ast.Call
            ):
                found.extend(_texts(node.exc, frozenset({'EXCEPTION'})))
    removed = values.MdevState.PERSISTENT, values.MdevState.ABSENT
    for step in (
        values.SetType('…', '…', '', '…'),
        values.SetType('…', '…', '…', ''),
        values.SetMdev('…', '…', '…', '…', *removed),
    ):
        found.append(_Message(str(step), frozenset({'INFO'})))
    return found


def _levels(called: str) -> frozenset[str]:
    """How something is said by what is called."""
    level = re.fullmatch(r'LOG\.(info|warning|error|exception)', called)
    if level:
        return frozenset({level[1].upper().replace('EXCEPTION', 'ERROR')})
    return {
        'unavailable': frozenset({'ERROR'}),
        'allocator.unavailable': frozenset({'ERROR'}),
        'self._failures.say': frozenset({'WARNING'}),
        # Which of the two, is up to the problem.
        'say': frozenset({'WARNING', 'ERROR'}),
    }.get(called, frozenset())


def _texts(call: ast.Call, levels: frozenset[str]) -> Iterator[_Message]:
    if ast.unparse(call.func).endswith('unavailable'):
        levels = frozenset({'ERROR'})
    reasons = [k.value for k in call.keywords if k.arg == 'reason']
    for node in [*call.args[:1], *reasons]:
        if levels and isinstance(node, ast.Constant | ast.JoinedStr):
            yield _Message(_text(node), levels)


def _text(node: ast.expr | None) -> str:
    """The text of a constant, or of one with fields."""
    if isinstance(node, ast.JoinedStr):
        return ''.join(
            str(part.value) if isinstance(part, ast.Constant) else '…'
            for part in node.values
        )
    return str(ast.literal_eval(node or '')).replace('%s', '…')
