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

"""What nova.conf declares, under our names and under Nova's."""

import itertools
import pathlib

import fixtures
from oslo_config import cfg
import testtools

from nova_vgpu import values
from nova_vgpu.conf import devices
from nova_vgpu.conf import opts

Read = tuple[values.Declaration, tuple[values.Problem, ...]]


class ConfTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())  # "Deprecated: …"
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf'
        )

    def load(self, text: str) -> cfg.ConfigOpts:
        self.path.write_text(text)
        conf = cfg.ConfigOpts()
        opts.register_opts(conf)
        conf(
            ['--config-file', str(self.path)],
            default_config_files=[],
            default_config_dirs=[],
        )
        return conf

    def read(self, text: str) -> Read:
        return devices.read_declaration(self.load(text))

    def declare(self, text: str) -> values.Declaration:
        declaration, problems = self.read(text)
        self.assertEqual((), problems)
        return declaration


class TestOptions(ConfTestCase):
    def test_nothing_set(self) -> None:
        self.assertEqual(values.Declaration(), self.declare(''))

    def test_every_option(self) -> None:
        declaration = self.declare("""
[devices]
enabled_vgpu_types = nvidia-35, A40-8Q
unlisted_gpus = ignore
switch_mig_mode = true
[vgpu_nvidia-35]
device_addresses = 0000:84:00.0,85:00.0
resource_class = CUSTOM_SMALL
max_instances = 3
traits = CUSTOM_RACK_7, HW_CPU_X86_AVX2
""")
        self.assertEqual(
            values.Declaration(
                types=(
                    values.DeclaredType(
                        name='nvidia-35',
                        group='vgpu_nvidia-35',
                        device_addresses=('0000:84:00.0', '85:00.0'),
                        resource_class='CUSTOM_SMALL',
                        max_instances=3,
                        traits=('CUSTOM_RACK_7', 'HW_CPU_X86_AVX2'),
                    ),
                    values.DeclaredType('A40-8Q', 'vgpu_A40-8Q'),
                ),
                unlisted=values.UnlistedGPUs.IGNORE,
                sections=('vgpu_nvidia-35',),
                unlisted_is_set=True,
                switches_mig_mode=True,
            ),
            declaration,
        )

    def test_addresses_stay_as_they_were_written(self) -> None:
        (declared,) = self.declare("""
[devices]
enabled_vgpu_types = a
[vgpu_a]
device_addresses = 84:00.0 , 00000001:C8:00.0,nonsense
""").types
        self.assertEqual(
            ('84:00.0', '00000001:C8:00.0', 'nonsense'),
            declared.device_addresses,
        )

    def test_sections_of_types_that_are_not_enabled_are_seen(self) -> None:
        declaration = self.declare("""
[devices]
enabled_vgpu_types = a
[vgpu_a]
[mdev_b]
[vgpu_c]
[libvirt]
[vgpus]
""")
        self.assertEqual(
            {'vgpu_a', 'mdev_b', 'vgpu_c'}, set(declaration.sections)
        )

    def test_an_empty_entry_is_none(self) -> None:
        declaration = self.declare("""
[devices]
enabled_vgpu_types = ,a,, b,
[vgpu_a]
device_addresses = ,84:00.0,, 85:00.0,
traits = ,CUSTOM_X,,
[vgpu_b]
device_addresses =
max_instances =
traits =
""")
        self.assertEqual(
            (
                values.DeclaredType(
                    'a',
                    'vgpu_a',
                    ('84:00.0', '85:00.0'),
                    traits=('CUSTOM_X',),
                ),
                values.DeclaredType('b', 'vgpu_b'),
            ),
            declaration.types,
        )

    def test_a_type_enabled_twice_counts_once(self) -> None:
        declaration = self.declare("""
[devices]
enabled_vgpu_types = A40-8Q, T4-2Q, a40-8q, A40-8Q
""")
        self.assertEqual(
            ['A40-8Q', 'T4-2Q'], [t.name for t in declaration.types]
        )

    def test_names_as_vendors_write_them(self) -> None:
        for name, section in (
            ('NVIDIA A40-2Q', 'vgpu_NVIDIA A40-2Q'),
            ('NVIDIA A40-2Q', 'vgpu_nvidia a40-2q'),
            ('NVIDIA A40-2Q', 'mdev_NVIDIA A40-2Q'),
            ('i915-GVTg_V5_4', 'vgpu_i915-GVTg_V5_4'),
            ('i915-GVTg_V5_4', 'mdev_i915-gvtg_v5_4'),
            ('v1.5-Type_X', 'vgpu_v1.5-Type_X'),
            ('100%', 'vgpu_100%'),
        ):
            (declared,) = self.declare(
                f'[devices]\nenabled_vgpu_types = {name}\n'
                f'[{section}]\ndevice_addresses = 84:00.0\n'
            ).types
            self.assertEqual(name, declared.name, section)
            self.assertEqual(('84:00.0',), declared.device_addresses, section)

    def test_two_objects_do_not_share_values(self) -> None:
        first, second = self.load(''), self.load('')
        first.set_override('enabled_vgpu_types', ['a'], group='devices')
        found, _problems = devices.read_declaration(second)
        self.assertEqual((), found.types)

    def test_values_that_are_in_no_file(self) -> None:
        conf = self.load('')
        conf.set_override('enabled_vgpu_types', ['a'], group='devices')
        conf.set_override('unlisted_gpus', 'ignore', group='devices')
        devices.read_declaration(conf)
        conf.set_override('device_addresses', ['84:00.0'], group='vgpu_a')
        conf.set_override('max_instances', 2, group='vgpu_a')
        declaration, problems = devices.read_declaration(conf)
        self.assertEqual((), problems)
        self.assertEqual(
            values.Declaration(
                (
                    values.DeclaredType(
                        'a', 'vgpu_a', ('84:00.0',), max_instances=2
                    ),
                ),
                unlisted=values.UnlistedGPUs.IGNORE,
                unlisted_is_set=True,
            ),
            declaration,
        )

    def test_reading_twice_changes_nothing(self) -> None:
        conf = self.load('[devices]\nenabled_mdev_types = a\n[mdev_a]\n')
        first = devices.read_declaration(conf)
        self.assertEqual(first, devices.read_declaration(conf))


class TestAliases(ConfTestCase):
    def test_all_combinations_of_names(self) -> None:
        for option, prefix, class_option in itertools.product(
            ('enabled_vgpu_types', 'enabled_mdev_types'),
            ('vgpu_', 'mdev_'),
            ('resource_class', 'mdev_class'),
        ):
            (declared,) = self.declare(f"""
[devices]
{option} = nvidia-35
[{prefix}nvidia-35]
device_addresses = 84:00.0
{class_option} = CUSTOM_X
max_instances = 3
traits = CUSTOM_Y
""").types
            self.assertEqual(
                values.DeclaredType(
                    'nvidia-35',
                    f'{prefix}nvidia-35',
                    ('84:00.0',),
                    'CUSTOM_X',
                    3,
                    ('CUSTOM_Y',),
                ),
                declared,
                f'{option} [{prefix}]{class_option}',
            )

    def test_our_name_goes_first_where_both_are_written(self) -> None:
        declaration = self.declare("""
[devices]
enabled_vgpu_types = a
enabled_mdev_types = b
[mdev_a]
device_addresses = 85:00.0
mdev_class = CUSTOM_NOVAS
max_instances = 3
[vgpu_a]
device_addresses = 84:00.0
mdev_class = CUSTOM_IGNORED
resource_class = CUSTOM_OURS
""")
        self.assertEqual(
            (
                values.DeclaredType(
                    'a',
                    'vgpu_a',
                    ('84:00.0',),
                    'CUSTOM_OURS',
                    # Only there in Nova's section, so that counts.
                    max_instances=3,
                ),
            ),
            declaration.types,
        )
        self.assertEqual({'vgpu_a', 'mdev_a'}, set(declaration.sections))
