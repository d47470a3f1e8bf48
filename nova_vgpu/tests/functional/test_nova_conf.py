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

"""One configuration object with Nova's own options and ours on it."""

import itertools
import pathlib
import re
import typing

import fixtures
from nova.conf import devices as nova_devices
from oslo_config import cfg
from oslo_log import versionutils
import testtools

from nova_vgpu import values
from nova_vgpu.conf import devices
from nova_vgpu.conf import opts

PAGE = pathlib.Path(__file__).parents[3] / 'doc/source/admin/log.rst'
OURS_FIRST = 'ours first'
NOVAS_FIRST = "Nova's first"
OURS_LATE = 'ours when the declaration is read'
ORDERS = (OURS_FIRST, NOVAS_FIRST, OURS_LATE)


class TestSharedWithNova(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf'
        )

    def load(self, order: str, text: str = '') -> cfg.ConfigOpts:
        """A new object with Nova's static options and perhaps ours."""
        # Nova's group is one object for the process and keeps what was
        # registered and overridden through any configuration object.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.conf.devices.devices_group', cfg.OptGroup('devices')
            )
        )
        self.path.write_text(text)
        conf = cfg.ConfigOpts()
        if order == OURS_FIRST:
            opts.register_opts(conf)
        nova_devices.register_opts(conf)
        if order == NOVAS_FIRST:
            opts.register_opts(conf)
        conf(
            ['--config-file', str(self.path)],
            default_config_files=[],
            default_config_dirs=[],
        )
        return conf

    def declare(self, conf: cfg.ConfigOpts) -> values.Declaration:
        declaration, problems = devices.read_declaration(conf)
        self.assertEqual((), problems)
        return declaration

    def test_a_file_in_all_combinations_of_names(self) -> None:
        for order, option, prefix, class_option in itertools.product(
            ORDERS,
            ('enabled_vgpu_types', 'enabled_mdev_types'),
            ('vgpu_', 'mdev_'),
            ('resource_class', 'mdev_class'),
        ):
            case = f'{order}: {option} [{prefix}]{class_option}'
            text = f"""
[devices]
{option} = nvidia-35
unlisted_gpus = ignore
[{prefix}nvidia-35]
device_addresses = 84:00.0
{class_option} = CUSTOM_X
max_instances = 3
traits = CUSTOM_Y
"""
            expected = values.DeclaredType(
                'nvidia-35',
                f'{prefix}nvidia-35',
                ('84:00.0',),
                'CUSTOM_X',
                3,
                ('CUSTOM_Y',),
            )
            never, before, after = (self.load(order, text) for _ in range(3))
            nova_devices.register_dynamic_opts(before)
            self.declare(after)
            nova_devices.register_dynamic_opts(after)
            for when, conf in (
                ('never', never),
                ('before', before),
                ('after', after),
            ):
                found = self.declare(conf)
                self.assertEqual(
                    (expected,), found.types, f'{case}, dynamic ones {when}'
                )
                self.assertEqual(values.UnlistedGPUs.IGNORE, found.unlisted)

    def test_nova_reads_its_own_options_as_before(self) -> None:
        for order in ORDERS:
            conf = self.load(
                order,
                '[devices]\nenabled_mdev_types = nvidia-35\n'
                '[mdev_nvidia-35]\ndevice_addresses = 84:00.0\n'
                'mdev_class = CUSTOM_X\nmax_instances = 3\n',
            )
            self.declare(conf)
            nova_devices.register_dynamic_opts(conf)
            group: typing.Any = conf['mdev_nvidia-35']
            self.assertEqual(
                ['nvidia-35'], conf.devices.enabled_mdev_types, order
            )
            self.assertEqual(['84:00.0'], group.device_addresses, order)
            self.assertEqual('CUSTOM_X', group.mdev_class, order)
            self.assertEqual(3, group.max_instances, order)

    def test_values_that_nova_was_given_past_the_files(self) -> None:
        for order in ORDERS:
            conf = self.load(order)
            conf.set_override(
                'enabled_mdev_types', ['nvidia-35'], group='devices'
            )
            nova_devices.register_dynamic_opts(conf)
            for option, value in (
                ('device_addresses', ['84:00.0']),
                ('mdev_class', 'CUSTOM_X'),
                ('max_instances', 3),
            ):
                conf.set_override(option, value, group='mdev_nvidia-35')
            found = self.declare(conf)
            self.assertEqual(
                (
                    values.DeclaredType(
                        'nvidia-35',
                        'vgpu_nvidia-35',
                        ('84:00.0',),
                        'CUSTOM_X',
                        3,
                    ),
                ),
                found.types,
                order,
            )
            self.assertEqual('[devices]enabled_mdev_types', found.types_option)

    def test_what_nova_was_given_goes_before_the_file(self) -> None:
        for order in (NOVAS_FIRST, OURS_LATE):
            conf = self.load(
                order,
                '[devices]\nenabled_mdev_types = nvidia-35\n'
                '[mdev_nvidia-35]\ndevice_addresses = 85:00.0\n',
            )
            nova_devices.register_dynamic_opts(conf)
            conf.set_override(
                'device_addresses', ['84:00.0'], group='mdev_nvidia-35'
            )
            (declared,) = self.declare(conf).types
            self.assertEqual(('84:00.0',), declared.device_addresses, order)

    def test_our_value_goes_before_novas(self) -> None:
        for order in ORDERS:
            conf = self.load(order)
            conf.set_override('enabled_mdev_types', ['a'], group='devices')
            nova_devices.register_dynamic_opts(conf)
            conf.set_override('device_addresses', ['85:00.0'], group='mdev_a')
            self.declare(conf)
            conf.set_override('device_addresses', ['84:00.0'], group='vgpu_a')
            (declared,) = self.declare(conf).types
            self.assertEqual(('84:00.0',), declared.device_addresses, order)

    def test_a_value_that_nova_refuses_is_a_problem(self) -> None:
        for order in ORDERS:
            conf = self.load(
                order,
                '[devices]\nenabled_mdev_types = a\n'
                '[mdev_a]\nmax_instances = 0\nmdev_class = x\n',
            )
            nova_devices.register_dynamic_opts(conf)
            declaration, problems = devices.read_declaration(conf)
            self.assertEqual(1, len(declaration.types), order)
            self.assertEqual(
                {'[mdev_a]max_instances', '[mdev_a]mdev_class'},
                {problem.subject for problem in problems},
                order,
            )

    def test_nobody_calls_novas_names_deprecated(self) -> None:
        conf = self.load(
            NOVAS_FIRST,
            '[devices]\nenabled_mdev_types = a\n'
            '[mdev_a]\ndevice_addresses = 84:00.0\nmax_instances = 2\n'
            'mdev_class = CUSTOM_X\n',
        )
        nova_devices.register_dynamic_opts(conf)
        self.declare(conf)
        self.assertNotIn('Deprecated', self.log.output)

    def test_the_page_of_the_log_has_what_nova_says_about_ours(self) -> None:
        """Nova reads our names as old names of its own options."""
        # Each is said once in a process.
        self.patch(versionutils, '_deprecated_messages_sent', {})
        conf = self.load(
            OURS_LATE,
            '[devices]\nenabled_vgpu_types = nvidia-35\n'
            '[vgpu_nvidia-35]\ndevice_addresses = 84:00.0\n',
        )
        nova_devices.register_dynamic_opts(conf)
        self.assertEqual(
            ['84:00.0'], conf['mdev_nvidia-35']['device_addresses']
        )
        self.declare(conf)
        page = ' '.join(PAGE.read_text().split())
        lines = re.findall(r'Deprecated: .*?"\.', self.log.output)
        self.assertEqual(2, len(lines), self.log.output)
        for line in lines:
            self.assertIn(line.replace('nvidia-35', '…'), page)
