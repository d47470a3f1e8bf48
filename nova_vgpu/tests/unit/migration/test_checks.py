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

"""Whether a server with vGPUs can be migrated live: the decision."""

import dataclasses
import pathlib
import typing

import testtools

from nova_vgpu import values
from nova_vgpu.migration import checks
from nova_vgpu.migration import downtime
from nova_vgpu.migration import reasons

PAGE = (
    pathlib.Path(__file__).parents[4]
    / 'doc'
    / 'source'
    / 'admin'
    / 'live-migration.rst'
)
MDEV = values.Framework.MDEV
ON_VFS = values.Framework.MDEV_ON_VFS
VFIO = values.Framework.VENDOR_VFIO
GIB = 1024**3

SOFTWARE = values.HostSoftware(
    '6.8.0-31-generic', (10, 0, 0), (8, 2, 2), '550.144.02', True
)
SETTINGS = values.MigrationSettings(False, 500000, 3, 3, 1024)
DEVICE = values.MovingDevice(
    gpu='0000:41:00.0',
    type='A40-8Q',
    resource_class='VGPU',
    framework=VFIO,
    ecc=True,
    can_migrate=True,
    versions=(12,),
    state_bytes=4 * GIB,
)
PLACE = values.MigrationPlace(
    gpu='0000:81:00.0',
    type='A40-8Q',
    free=1,
    resource_class='VGPU',
    framework=VFIO,
    ecc=True,
    can_migrate=True,
    versions=(10, 14),
)
WHOLE = dataclasses.replace(
    DEVICE,
    type=None,
    resource_class='CUSTOM_GPU_A40',
    is_whole=True,
    may_migrate=True,
)
WHOLE_PLACE = values.MigrationPlace(
    '0000:C1:00.0',
    free=1,
    resource_class='CUSTOM_GPU_A40',
    is_whole=True,
    may_migrate=True,
)
Codes = list[str]


def change(of: typing.Any, **fields: typing.Any) -> typing.Any:
    return dataclasses.replace(of, **fields)


def find(
    *devices: values.MovingDevice,
    to: tuple[values.MigrationPlace, ...] = (PLACE,),
    here: values.HostSoftware = SOFTWARE,
    there: values.HostSoftware = SOFTWARE,
    settings: values.MigrationSettings = SETTINGS,
    bandwidth: int | None = None,
    apart: bool = False,
    paused: bool = False,
) -> tuple[values.MigrationReason, ...]:
    return checks.check(
        values.MigrationSource(
            'compute1', devices or (DEVICE,), here, settings, apart, paused
        ),
        values.MigrationTarget('compute2', to, there),
        bandwidth,
    )


def write(found: tuple[values.MigrationReason, ...]) -> list[str]:
    return [f'{each.effect.value} {each.code}' for each in found]


class ChecksTest(testtools.TestCase):
    def test_nothing_is_against_it(self) -> None:
        found = find()
        self.assertEqual((), found)
        self.assertEqual(checks.Verdict.YES, checks.judge(found))

    def expect(
        self, table: tuple[tuple[str, dict[str, typing.Any], Codes], ...]
    ) -> None:
        for description, given, codes in table:
            devices = given.pop('devices', ())
            found = find(*devices, **given)
            self.assertEqual(codes, write(found), description)
            for each in found:
                self.assertTrue(each.text and each.cure, each)

    def test_types(self) -> None:
        other = change(PLACE, type='A40-16Q')
        self.expect(
            (
                (
                    'a host with GPUs that serves another type',
                    {'to': (other,)},
                    ['prevents type-missing'],
                ),
                (
                    'a host without GPUs',
                    {'to': ()},
                    ['prevents type-missing'],
                ),
                (
                    'the type as another resource class',
                    {'to': (change(PLACE, resource_class='CUSTOM_A40'),)},
                    ['prevents type-missing'],
                ),
                (
                    'one GPU of two serves the type',
                    {'to': (other, PLACE)},
                    [],
                ),
                (
                    "a provider of Nova's driver, without traits",
                    {'devices': (change(DEVICE, type=None),)},
                    ['unknown type-unknown'],
                ),
                (
                    'nothing is known of what is free',
                    {'to': (change(PLACE, free=None),)},
                    [],
                ),
            )
        )

    def test_capacity(self) -> None:
        def free(*numbers: int) -> dict[str, typing.Any]:
            return {'to': tuple(change(PLACE, free=n) for n in numbers)}

        two = change(DEVICE, number=2)
        other = change(DEVICE, type='A40-16Q')
        full = ['prevents no-capacity']
        self.expect(
            (
                ('all vGPUs are in use', free(0), full),
                ('two of one GPU', {'devices': (two,), **free(2)}, []),
                (
                    'two of one GPU, free on two',
                    {'devices': (two,), **free(1, 1)},
                    full,
                ),
                (
                    'of two GPUs, free on one',
                    {'devices': (DEVICE, DEVICE), **free(2)},
                    [],
                ),
                (
                    'of two GPUs that have to differ, free on one',
                    {'devices': (DEVICE, DEVICE), 'apart': True, **free(2)},
                    full,
                ),
                (
                    'of two GPUs that have to differ, free on two',
                    {'devices': (DEVICE, DEVICE), 'apart': True, **free(1, 1)},
                    [],
                ),
                (
                    'the larger one finds its place first',
                    {'devices': (DEVICE, two), **free(1, 2)},
                    [],
                ),
                (
                    'enough of one type, none of the other',
                    {
                        'devices': (DEVICE, other),
                        'to': (
                            PLACE,
                            change(PLACE, type='A40-16Q', free=0),
                        ),
                    },
                    full,
                ),
            )
        )
        (reason,) = find(two, to=(PLACE, PLACE))
        self.assertIn('room for 2 vGPUs of type A40-8Q', reason.text)
        self.assertIn('free on its GPUs: 1 + 1.', reason.text)

    def test_frameworks(self) -> None:
        def of(here: typing.Any, there: typing.Any) -> dict[str, typing.Any]:
            return {
                'devices': (change(DEVICE, framework=here),),
                'to': (change(PLACE, framework=there),),
            }

        self.expect(
            (
                ('an mdev goes to a virtual function', of(MDEV, ON_VFS), []),
                (
                    'an mdev to vendor VFIO',
                    of(MDEV, VFIO),
                    ['prevents framework'],
                ),
                (
                    'vendor VFIO to an mdev',
                    of(VFIO, MDEV),
                    ['prevents framework'],
                ),
                (
                    'no agent at the source',
                    of(None, VFIO),
                    ['unknown framework-unknown'],
                ),
                (
                    'no agent at the destination',
                    of(VFIO, None),
                    ['unknown framework-unknown'],
                ),
            )
        )

    def test_whole_gpus(self) -> None:
        def of(here: bool, there: bool) -> dict[str, typing.Any]:
            return {
                'devices': (change(WHOLE, may_migrate=here),),
                'to': (change(WHOLE_PLACE, may_migrate=there),),
            }

        self.expect(
            (
                (
                    'live_migratable on both sides: the alias decides',
                    of(True, True),
                    ['unknown passthrough-alias'],
                ),
                (
                    'not at the source',
                    of(False, True),
                    ['prevents passthrough'],
                ),
                (
                    'not at the destination',
                    of(True, False),
                    ['prevents passthrough', 'unknown passthrough-alias'],
                ),
                (
                    'a host with vGPUs only',
                    {'devices': (WHOLE,)},
                    ['prevents type-missing', 'unknown passthrough-alias'],
                ),
                (
                    'the other one is in use',
                    {
                        'devices': (WHOLE,),
                        'to': (change(WHOLE_PLACE, free=0),),
                    },
                    ['prevents no-capacity', 'unknown passthrough-alias'],
                ),
            )
        )

    def test_libvirt_and_qemu(self) -> None:
        mdev = {
            'devices': (change(DEVICE, framework=MDEV),),
            'to': (change(PLACE, framework=MDEV),),
        }
        old = change(SOFTWARE, libvirt=(8, 6, 0), qemu=(8, 1, 0))
        older = change(SOFTWARE, libvirt=(8, 5, 0), qemu=(8, 0, 5))
        unknown = change(SOFTWARE, libvirt=None, qemu=None)
        refused = ['prevents libvirt', 'prevents qemu']
        self.expect(
            (
                ('mdevs with what Nova needs', {**mdev, 'there': old}, []),
                (
                    'functions need more',
                    {'there': old},
                    refused,
                ),
                (
                    'too old at the destination',
                    {**mdev, 'there': older},
                    refused,
                ),
                ('too old at the source', {**mdev, 'here': older}, refused),
                (
                    'not known',
                    {'there': unknown},
                    ['unknown libvirt-unknown', 'unknown qemu-unknown'],
                ),
            )
        )

    def test_kernels(self) -> None:
        def of(
            release: str | None, logging: bool | None = True, at: str = 'there'
        ) -> typing.Any:
            return {at: change(SOFTWARE, kernel=release, dma_logging=logging)}

        self.expect(
            (
                ('the first that can', of('5.18.0'), []),
                ('too old', of('5.15.0-100-generic'), ['prevents kernel']),
                (
                    'Red Hat backports to 5.14',
                    of('5.14.0-427.el9.x86_64'),
                    ['unknown kernel-unknown'],
                ),
                ('not known', of(None), ['unknown kernel-unknown']),
                ('not a release', of('x'), ['unknown kernel-unknown']),
                (
                    'Debian 13 as it is',
                    of('6.12.117+deb13-amd64', False, 'here'),
                    ['prevents dma-logging'],
                ),
                (
                    'only the source has to know what the vGPU writes',
                    of('6.12.117+deb13-amd64', False),
                    [],
                ),
                (
                    'its configuration is not known',
                    of('6.12.117', None, 'here'),
                    ['unknown dma-logging-unknown'],
                ),
            )
        )

    def test_devices(self) -> None:
        def of(can: bool | None, **others: typing.Any) -> typing.Any:
            return {'devices': (change(DEVICE, can_migrate=can, **others),)}

        self.expect(
            (
                ('the driver rules it out', of(False), ['prevents device']),
                ('NVML is silent', of(None), ['unknown device-unknown']),
                (
                    'another vendor',
                    of(None, is_nvidia=False, ecc=None, versions=()),
                    ['unknown device-unknown'],
                ),
                (
                    'the GPUs of the destination take none',
                    {'to': (change(PLACE, can_migrate=False),)},
                    ['prevents device'],
                ),
                (
                    'one of them does',
                    {'to': (change(PLACE, can_migrate=False), PLACE)},
                    [],
                ),
            )
        )

    def test_drivers(self) -> None:
        def of(
            version: str | None,
            accepted: tuple[int, int] | None = None,
            here: tuple[int, ...] = (12,),
        ) -> typing.Any:
            return {
                'devices': (change(DEVICE, versions=here),),
                'to': (change(PLACE, versions=accepted),),
                'there': change(SOFTWARE, driver=version),
            }

        unknown = ['unknown driver-unknown']
        self.expect(
            (
                ('equal, and NVML tells no more', of('550.144.02'), []),
                ('of one branch', of('550.163.02'), unknown),
                ('of another branch', of('570.133.10'), unknown),
                ('unknown', of(None), unknown),
                ('another one that fits', of('570.133.10', (12, 14)), []),
                (
                    'one that is too new',
                    of('570.133.10', (13, 14)),
                    ['prevents driver'],
                ),
                (
                    'one of several vGPUs is too old',
                    of('570.133.10', (12, 14), (11, 12)),
                    ['prevents driver'],
                ),
                (
                    'the guest has loaded no driver',
                    of('570.133.10', (13, 14), ()),
                    unknown,
                ),
            )
        )
        (reason,) = find(
            there=change(SOFTWARE, driver='550.163.02'),
            to=(change(PLACE, versions=None),),
        )
        self.assertIn('of one branch', reason.text)

    def test_ecc(self) -> None:
        def of(here: bool | None, *there: bool | None) -> typing.Any:
            return {
                'devices': (change(DEVICE, ecc=here),),
                'to': tuple(change(PLACE, ecc=each) for each in there),
            }

        self.expect(
            (
                ('off on both', of(False, False), []),
                ('off at the destination', of(True, False), ['prevents ecc']),
                ('on, on one of two GPUs', of(True, False, True), []),
                ('not known here', of(None, True), ['unknown ecc-unknown']),
                ('not known there', of(True, None), ['unknown ecc-unknown']),
            )
        )

    def test_settings(self) -> None:
        def of(
            qemu: values.Version | None = (8, 2, 2), **options: typing.Any
        ) -> typing.Any:
            return {
                'here': change(SOFTWARE, qemu=qemu),
                'settings': change(SETTINGS, **options),
                'devices': (change(DEVICE, framework=MDEV),),
                'to': (change(PLACE, framework=MDEV),),
            }

        usual: typing.Any = {
            'downtime': 500,
            'downtime_steps': 10,
            'downtime_delay': 75,
        }
        self.expect(
            (
                (
                    'QEMU refuses post-copy',
                    of(post_copy=True),
                    ['prevents post-copy'],
                ),
                (
                    'an older QEMU loses the guest',
                    of((8, 1, 5), post_copy=True),
                    ['advice post-copy'],
                ),
                (
                    'a QEMU of an unknown version',
                    of(None, post_copy=True),
                    ['unknown qemu-unknown', 'unknown post-copy-unknown'],
                ),
                (
                    'Nova migrates a paused server without it',
                    {**of(post_copy=True), 'paused': True},
                    [],
                ),
                (
                    'not known',
                    of(post_copy=None),
                    ['unknown post-copy-unknown'],
                ),
                (
                    "Nova's default: 4 GiB take 4 s",
                    of(**usual),
                    ['advice downtime'],
                ),
                (
                    "Nova's default, and nothing to estimate it by",
                    of(**usual, bandwidth=0),
                    ['advice downtime'],
                ),
                ('5 s are enough', of(downtime=5000), []),
                (
                    'not known',
                    of(downtime=None),
                    ['unknown downtime-unknown'],
                ),
            )
        )

    def test_the_downtime(self) -> None:
        def of(
            *sizes: int | None, bandwidth: int | None = None, limit: int = 0
        ) -> float | None:
            source = values.MigrationSource(
                'compute1',
                tuple(change(DEVICE, state_bytes=size) for size in sizes),
                settings=change(SETTINGS, bandwidth=limit),
            )
            found = downtime.estimate(source, bandwidth)
            return found.seconds if found else None

        self.assertEqual(4.0, of(4 * GIB, limit=1024))
        self.assertEqual(8.0, of(4 * GIB, 4 * GIB, limit=1024))
        self.assertEqual(2.0, of(4 * GIB, limit=1024, bandwidth=2048))
        self.assertIsNone(of(4 * GIB))
        self.assertIsNone(of(4 * GIB, None, limit=1024))

    def test_nothing_known_is_not_taken_for_good(self) -> None:
        device = values.MovingDevice('0000:41:00.0', 'A40-8Q')
        found = find(
            device,
            to=(values.MigrationPlace('0000:81:00.0', 'A40-8Q'),),
            here=values.UNKNOWN_SOFTWARE,
            there=values.UNKNOWN_SOFTWARE,
            settings=values.UNKNOWN_SETTINGS,
        )
        self.assertEqual({'unknown'}, {each.effect.value for each in found})
        self.assertEqual(
            {
                *('framework', 'device', 'driver', 'ecc', 'libvirt', 'qemu'),
                *('kernel', 'dma-logging', 'post-copy', 'downtime'),
            },
            {each.code.removesuffix('-unknown') for each in found},
        )
        self.assertEqual(checks.Verdict.UNKNOWN, checks.judge(found))
        self.assertEqual((), checks.list_refusals(found))

    def test_what_prevents_it_comes_first(self) -> None:
        found = find(to=(), settings=values.UNKNOWN_SETTINGS)
        self.assertEqual('type-missing', found[0].code)
        self.assertEqual(checks.Verdict.NO, checks.judge(found))
        self.assertEqual(found[:1], checks.list_refusals(found))

    def test_the_page_explains_each_code(self) -> None:
        if not PAGE.is_file():
            self.skipTest('the documentation is not part of a wheel')
        page = PAGE.read_text()
        self.assertEqual(
            [], [c.value for c in reasons.Code if f'``{c.value}``' not in page]
        )
