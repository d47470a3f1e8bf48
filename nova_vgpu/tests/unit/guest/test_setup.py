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

"""What a guest gets, and what is refused before."""

import dataclasses
import fnmatch
import json
import typing

import testtools

from nova_vgpu.guest import driver_versions
from nova_vgpu.guest import facts_file
from nova_vgpu.guest import licences
from nova_vgpu.guest import setup

TOKEN = b'aGVhZGVy.c2VjcmV0.c2lnbmF0dXJl\n'
GRID = 'https://files.example.org/NVIDIA-Linux-x86_64-550.144.03-grid.run'
KEY = (
    '-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n=abcd\n'
    '-----END PGP PUBLIC KEY BLOCK-----\n'
)
VGPU = setup.Request(
    driver='vgpu-guest',
    driver_source=GRID,
    driver_sha256='a' * 64,
    host_driver='550.144.02',
    vgpu_type='T4-2Q',
    licence_token=TOKEN,
)
WHOLE = setup.Request(driver='datacenter', driver_source='nvidia-driver')
NONE = setup.Request(driver='none')
NODE = setup.Request(driver='none', gpu_cluster=True, device_plugin='none')


def change(request: setup.Request, **fields: typing.Any) -> setup.Request:
    return dataclasses.replace(request, **fields)


def find_file(wanted: setup.Setup, path: str) -> setup.File:
    (found,) = (file for file in wanted.files if file.path == path)
    return found


def find_text(request: setup.Request, path: str) -> str:
    return find_file(setup.decide(request), path).content.decode()


class TestVersions(testtools.TestCase):
    def test_branches_that_work_together(self) -> None:
        for guest, host, expected in (
            (550, 550, True),
            (535, 550, True),  # the branch before
            (525, 550, False),
            (470, 535, True),  # long-term support, and the one before
            (535, 580, True),
            (470, 580, False),
            (550, 580, False),  # not long-term support
            (570, 580, True),
            (580, 595, True),
            (535, 595, False),
            (570, 550, False),  # newer than the host
            (610, 610, True),
            (595, 610, None),  # a branch that is not known yet
            (418, 470, None),
        ):
            self.assertIs(
                expected, driver_versions.fits(guest, host), f'{guest} {host}'
            )

    def test_versions_in_names(self) -> None:
        for source, expected in (
            (GRID, '550.144.03'),
            ('https://x/NVIDIA-Linux-x86_64-570.86.10.run', '570.86.10'),
            (
                'https://x/nvidia-linux-grid-550_550.90.07_amd64.deb',
                '550.90.07',
            ),
            ('https://x/580.1.2/driver.run', None),  # only the name counts
            ('https://x/driver.run?v=550.144.03', None),
            ('nvidia-driver-550', None),
            # Not a part of another number.
            ('https://x/driver-550.12345.run', None),
            ('https://x/driver-550.1.2.3.4.run', None),
            ('https://x/driver-1550.1.run', None),
        ):
            self.assertEqual(
                expected, driver_versions.find_in_name(source), source
            )


class TestLicences(testtools.TestCase):
    def test_the_feature_type_fits(self) -> None:
        for vgpu_type, series in (
            ('T4-2Q', 'Q'),
            ('GRID T4-16A', 'A'),
            ('NVIDIA A40-2B', 'B'),
            ('A100-1-5C', 'C'),
            ('A100-1-5CME', 'C'),
            ('NVIDIA RTX6000-Ada-48Q', 'Q'),
        ):
            self.assertEqual(series, licences.find_series(vgpu_type))
            self.assertIn(series, licences.SERIES)
            self.assertEqual(
                'FeatureType=1\n',
                find_text(
                    change(VGPU, vgpu_type=vgpu_type), '/etc/nvidia/gridd.conf'
                ),
            )
        for product, number in (('vapps', 0), ('vws', 2), ('compute', 4)):
            whole = change(
                VGPU, vgpu_type=None, host_driver=None, licence=product
            )
            self.assertEqual((), setup.find_problems(whole))
            self.assertEqual(
                f'FeatureType={number}\n',
                find_text(whole, '/etc/nvidia/gridd.conf'),
            )

    def test_what_is_not_a_type(self) -> None:
        for text in ('', 'T4', 'T4-2X', 'T4-2Q\nServerAddress=x', '-2Q'):
            self.assertIsNone(licences.find_series(text), text)

    def test_the_token(self) -> None:
        wanted = setup.decide(VGPU)
        token = find_file(
            wanted,
            '/etc/nvidia/ClientConfigToken/client_configuration_token.tok',
        )
        self.assertEqual((0o744, TOKEN.strip()), (token.mode, token.content))
        self.assertTrue(token.is_secret and wanted.has_secrets)
        self.assertNotIn('c2VjcmV0', repr(wanted) + repr(VGPU))

    def test_servers(self) -> None:
        request = change(
            VGPU,
            licence_token=None,
            licence_servers=('a.example.org', '192.0.2.7:7071'),
            driver_version='510.108.03',
            host_driver='510.108.03',
        )
        self.assertEqual((), setup.find_problems(request))
        self.assertEqual(
            'ServerAddress=a.example.org\nServerPort=7070\n'
            'BackupServerAddress=192.0.2.7\nBackupServerPort=7071\n'
            'FeatureType=1\n',
            find_text(request, '/etc/nvidia/gridd.conf'),
        )
        self.assertFalse(setup.decide(request).has_secrets)

    def test_from_which_branch_on_servers_are_refused(self) -> None:
        for version, expected in (
            ('510.108.03', 0),
            ('525.60.13', 1),
            ('535.1.1', 1),
        ):
            request = change(
                VGPU,
                licence_token=None,
                licence_servers=('a.example.org',),
                driver_version=version,
                host_driver=version,
            )
            self.assertEqual(
                expected, len(setup.find_problems(request)), version
            )

    def test_none_is_written_where_none_is_needed(self) -> None:
        for request in (WHOLE, NONE, change(NONE, licence_token=TOKEN)):
            wanted = setup.decide(request)
            self.assertEqual((), wanted.licence_files)
            self.assertFalse(wanted.has_secrets)
        # The image may have the driver for vGPUs.
        image = change(NONE, vgpu_type='T4-2Q', licence_token=TOKEN)
        self.assertEqual(2, len(setup.decide(image).licence_files))


class TestDrivers(testtools.TestCase):
    def test_which_package(self) -> None:
        package = change(
            VGPU, driver_source='nvidia-linux-grid', driver_sha256=None
        )
        for case, request, expected in (
            ("the host's branch", package, '550.*'),
            (
                'another host',
                change(package, host_driver='535.230.02'),
                '535.*',
            ),
            (
                'a version',
                change(package, driver_version='550.90.07'),
                '550.90.07*',
            ),
            (
                'a branch in the name',
                change(package, driver_source='nvidia-linux-grid-535'),
                '535.*',
            ),
            ('a whole GPU', WHOLE, ''),
            (
                'a version of that',
                change(WHOLE, driver_version='570.86.10'),
                '570.86.10*',
            ),
        ):
            self.assertEqual((), setup.find_problems(request), case)
            wanted = setup.decide(request)
            driver = wanted.packages[-1]
            self.assertEqual(
                (request.driver_source, expected),
                (driver.name, driver.version),
                case,
            )
            pinned = [f for f in wanted.files if 'preferences.d' in f.path]
            self.assertEqual(bool(expected), bool(pinned), case)

    def test_a_pin_is_for_all_packages_of_a_driver(self) -> None:
        """Each requires the others in its own version."""
        for package in ('nvidia-driver', 'site-driver'):
            pin = find_text(
                change(
                    WHOLE,
                    driver_source=package,
                    driver_version='550.144.03',
                ),
                '/etc/apt/preferences.d/nova-vgpu-guest',
            )
            first, version, priority = pin.splitlines()
            self.assertEqual('Pin: version 550.144.03*', version)
            self.assertEqual('Pin-Priority: 1001', priority)
            patterns = first.removeprefix('Package: ').split()
            for name, expected in (
                (package, True),
                ('libnvidia-compute-550', True),
                ('nvidia-kernel-dkms', True),
                ('firmware-nvidia-gsp', True),
                ('libcuda1', True),
                ('libnvcuvid1', True),
                ('cuda-drivers', True),
                ('linux-image-amd64', False),
            ):
                found = any(
                    fnmatch.fnmatchcase(name, pattern) for pattern in patterns
                )
                self.assertEqual(expected, found, name)

    def test_which_file(self) -> None:
        file = setup.decide(VGPU).driver_file
        self.assertEqual(
            setup.DriverFile(GRID, 'a' * 64, '550.144.03', 'run'), file
        )

    def test_dkms_comes_with_every_driver_and_only_then(self) -> None:
        for request, expected in ((VGPU, True), (WHOLE, True), (NONE, False)):
            wanted = setup.decide(request)
            names = {package.name for package in wanted.packages}
            self.assertIs(expected, 'dkms' in names)
            self.assertIs(
                expected,
                json.loads(setup.make_plan(wanted))['installs_driver'],
            )

    def test_a_signed_url_is_secret(self) -> None:
        for query, expected in (('', False), ('?signature=abc', True)):
            request = change(
                VGPU,
                vgpu_type=None,
                driver='datacenter',
                licence_token=None,
                driver_source='https://x/NVIDIA-Linux-x86_64-570.86.10.run'
                + query,
            )
            self.assertEqual((), setup.find_problems(request))
            wanted = setup.decide(request)
            self.assertIs(expected, wanted.has_secrets)
            self.assertEqual(0o600, find_file(wanted, setup.PLAN).mode)
            self.assertNotIn('signature', repr(wanted.driver_file))

    def test_the_repository(self) -> None:
        for text, lines in (
            (
                'https://apt.example.org/debian bookworm main contrib',
                'Suites: bookworm\nComponents: main contrib\n',
            ),
            ('http://192.0.2.1:8080 ./', 'Suites: ./\n'),
        ):
            request = change(WHOLE, repository=text, repository_key=KEY)
            self.assertEqual((), setup.find_problems(request))
            found = find_text(
                request, '/etc/apt/sources.list.d/nova-vgpu-guest.sources'
            )
            self.assertIn(lines, found)
            self.assertIn(f'URIs: {text.split()[0]}\n', found)

    def test_the_container_runtime(self) -> None:
        for runtime, cluster, expected in (
            (None, False, 'none'),
            (None, True, 'containerd'),
            ('docker', True, 'docker'),
            ('docker', False, 'docker'),
        ):
            request = change(
                NONE, container_runtime=runtime, gpu_cluster=cluster
            )
            self.assertEqual(expected, setup.choose_runtime(request))
            names = {it.name for it in setup.decide(request).packages}
            self.assertIs(
                expected != 'none', 'nvidia-container-toolkit' in names
            )


class TestFiles(testtools.TestCase):
    def test_paths_and_modes(self) -> None:
        plan = (setup.PLAN, 0o600)
        nouveau = ('/etc/modprobe.d/nova-vgpu-guest.conf', 0o644)
        for request, expected in (
            (NONE, [plan]),
            (WHOLE, [nouveau, plan]),
            (
                VGPU,
                [
                    ('/etc/nvidia/gridd.conf', 0o644),
                    (
                        '/etc/nvidia/ClientConfigToken/'
                        'client_configuration_token.tok',
                        0o744,
                    ),
                    nouveau,
                    plan,
                ],
            ),
            (
                change(
                    WHOLE,
                    driver_version='570.86.10',
                    repository='https://x ./',
                    repository_key=KEY,
                ),
                [
                    ('/etc/apt/keyrings/nova-vgpu-guest.asc', 0o644),
                    (
                        '/etc/apt/sources.list.d/nova-vgpu-guest.sources',
                        0o644,
                    ),
                    ('/etc/apt/preferences.d/nova-vgpu-guest', 0o644),
                    nouveau,
                    plan,
                ],
            ),
        ):
            files = setup.decide(request).files
            self.assertEqual(expected, [(f.path, f.mode) for f in files])


class TestProblems(testtools.TestCase):
    def test_everything_that_is_missing_is_named_at_once(self) -> None:
        for request, options in (
            (setup.Request(), ['--driver,']),
            (
                setup.Request(driver='vgpu-guest'),
                ['--driver-source', '--host-driver', '--licence-token'],
            ),
            (
                setup.Request(
                    driver='datacenter',
                    driver_source='https://x/driver.run',
                    repository='https://x ./',
                ),
                ['--driver-sha256', '--driver-version', '--repository-key'],
            ),
            (setup.Request(driver='datacenter'), ['--driver-source']),
            (
                setup.Request(driver='datacenter', gpu_cluster=True),
                ['--device-plugin', '--driver-source'],
            ),
        ):
            problems = setup.find_problems(request)
            self.assertEqual(len(options), len(problems), str(problems))
            for option in options:
                self.assertIn(f'Give {option}', ' '.join(problems) + ',')

    def test_what_is_refused(self) -> None:
        run = 'https://x/NVIDIA-Linux-x86_64-550.144.03'
        whole_url = change(
            WHOLE, driver_source=f'{run}.run', driver_sha256='a' * 64
        )
        for word, request in (
            ('whole GPUs', change(VGPU, driver_source=f'{run}.run')),
            (
                'vGPU manager',
                change(VGPU, driver_source=f'{run}-vgpu-kvm.run'),
            ),
            ('for vGPUs', change(whole_url, driver_source=f'{run}-grid.run')),
            (
                'for vGPUs',
                change(
                    whole_url,
                    driver_source='https://x/nvidia-linux-grid-550_550.1_a.deb',
                ),
            ),
            ('does not work', change(VGPU, host_driver='535.1.1')),
            ('is not known', change(VGPU, host_driver='610.1.1')),
            ('not a version', change(VGPU, host_driver='550')),
            (
                'not in the name',
                change(VGPU, driver_source='https://x/driver.run?v=550.1.2'),
            ),
            ('not a SHA-256', change(VGPU, driver_sha256='A' * 64)),
            ('not a vGPU type', change(VGPU, vgpu_type='T4')),
            ('Leave one out', change(VGPU, licence='vws')),
            ('not one of', change(VGPU, licence='free')),
            ('cannot be set up', change(VGPU, driver='vgpu-host')),
            ('does not work with a vGPU', change(WHOLE, vgpu_type='T4-2Q')),
            ('has no licence', change(WHOLE, licence='vws')),
            ('either a token', change(VGPU, licence_servers=('a.example',))),
            (
                'does not know licence servers',
                change(
                    VGPU, licence_servers=('a.example',), licence_token=None
                ),
            ),
            ('is not HOST', change(VGPU, licence_servers=('a b',))),
            ('is not HOST', change(VGPU, licence_servers=('a:70000',))),
            ('twice at most', change(VGPU, licence_servers=('a',) * 3)),
            (
                'needs a container runtime',
                change(NODE, container_runtime='none'),
            ),
            ('about a container', change(NONE, cdi=True)),
            ('is not one of', change(NONE, container_runtime='podman')),
        ):
            problems = setup.find_problems(request)
            self.assertTrue(any(word in it for it in problems), problems)

    def test_nothing_hostile_gets_through(self) -> None:
        """Each is a way out of YAML, a shell, a file or an option."""
        bad = (
            *('', '-x', 'a b', 'a\nb', 'a;b', 'a`b`', 'a$(b)', "a'b", 'a"b'),
            *('a\0b', 'a&b', 'ä', '{a}', 'a\\b', '../a', '#a', 'a|b', '*'),
        )
        for text in bad:
            for request in (
                change(WHOLE, driver_source=text),
                change(VGPU, driver_source=f'https://{text}/550.1.2.run'),
                change(VGPU, driver_source=f'https://x/{text}\n550.1.2.run'),
                change(VGPU, driver_sha256=text),
                change(VGPU, driver_version=text),
                change(VGPU, host_driver=text),
                change(VGPU, vgpu_type=text),
                change(VGPU, licence_servers=(text,)),
                change(VGPU, licence_token=b'a.b.c' + text.encode() + b'\nx'),
                change(NODE, device_plugin=text),
                change(NODE, device_plugin=f'x/{text}:1'),
                change(NODE, device_plugin=f'x:1{text}@'),
                change(WHOLE, repository=f'{text} x y', repository_key=KEY),
                change(WHOLE, repository_key=KEY + text + 'x'),
            ):
                self.assertNotEqual((), setup.find_problems(request), request)

    def test_characters_of_a_url(self) -> None:
        for text in ' ;\'"\\ä{}#|*$()<>`!^\0':
            for source in (
                f'https://x/{text}-550.1.2-grid.run',
                f'https://x/a{text}/driver-550.1.2.run',
                f'https://x/driver-550.1.2.run?a={text}',
            ):
                problems = setup.find_problems(
                    change(VGPU, driver_source=source)
                )
                self.assertIn('URL of --driver-source', ' '.join(problems))

    def test_a_repository_that_apt_would_not_take(self) -> None:
        for text in (
            'https://x',
            'https://x bookworm',  # a suite has components,
            'https://x main/ $main',
            'https://x bookworm main\nTrusted: yes',
            'https://x bookworm main [trusted=yes]',
            'https://x bookworm main -o',
            'ftp://x bookworm main',
            'https://me:secret@x bookworm main',
        ):
            (problem,) = setup.find_problems(
                change(WHOLE, repository=text, repository_key=KEY)
            )
            self.assertIn('is not "URI SUITE COMPONENT..."', problem, text)

    def test_a_key_without_its_repository(self) -> None:
        for key, count in ((KEY, 1), ('', 1), ('not a key', 2)):
            problems = setup.find_problems(change(WHOLE, repository_key=key))
            self.assertEqual(count, len(problems), key)
            self.assertIn('Give --repository, or leave', problems[0])

    def test_no_problem_shows_a_secret(self) -> None:
        for request in (
            change(VGPU, licence_token=b'secret secret'),
            change(VGPU, driver_source='https://me:secret@x/550.1.2.run'),
            change(VGPU, driver_source='https://x/a.run?key=secret key'),
            change(
                WHOLE,
                repository='https://me:secret@x bookworm main',
                repository_key=KEY,
            ),
        ):
            problems = ' '.join(setup.find_problems(request))
            self.assertNotEqual('', problems)
            self.assertNotIn('secret', problems)

    def test_a_private_key_is_refused(self) -> None:
        key = KEY.replace('PUBLIC', 'PRIVATE')
        problems = setup.find_problems(
            change(WHOLE, repository='https://x ./', repository_key=key)
        )
        self.assertEqual(1, len(problems))
        self.assertIn('public key', problems[0])


class TestFactsFile(testtools.TestCase):
    def test_what_they_say(self) -> None:
        vgpu = {
            'kind': 'vgpu',
            'vgpu_type': 'T4-2Q',
            'host_driver_version': '550.144.02',
        }
        for needed, gpus, expected in (
            (
                ['vgpu-guest'],
                [{'kind': 'physical'}, vgpu],
                {
                    'driver': 'vgpu-guest',
                    'vgpu_type': 'T4-2Q',
                    'host_driver': '550.144.02',
                },
            ),
            (['datacenter'], [], {'driver': 'datacenter'}),
            (['intel', 'datacenter'], [], {'driver': 'datacenter'}),
            (['intel'], [], {'driver': 'none'}),
        ):
            text = json.dumps({'drivers_needed': needed, 'gpus': gpus})
            self.assertEqual((expected, ()), facts_file.parse(text))
        for value, is_cluster in (
            ('true', True),
            ('"no"', False),
            ('1', False),
        ):
            found, _ = facts_file.parse(
                f'{{"drivers_needed": ["amd"], "is_gpu_cluster": {value}}}'
            )
            self.assertEqual(is_cluster, 'gpu_cluster' in found, value)

    def test_what_they_do_not_say(self) -> None:
        for text, word in (
            ('', 'does not have facts'),
            ('[]', 'does not have facts'),
            ('[' * 100_000, 'does not have facts'),
            ('{"drivers_needed": ["unknown"]}', 'unknown'),
            ('{"drivers_needed": ["vgpu-host"]}', 'host of vGPUs'),
            ('{"drivers_needed": []}', 'does not have a GPU'),
            ('{"drivers_needed": 7, "gpus": 7}', 'does not have a GPU'),
        ):
            found, problems = facts_file.parse(text)
            self.assertEqual({}, found)
            self.assertIn(word, problems[0])

    def test_hostile_facts_are_checked_like_options(self) -> None:
        text = json.dumps(
            {
                'drivers_needed': ['vgpu-guest', {}, None],
                'gpus': [
                    7,
                    {'kind': 'vgpu', 'vgpu_type': 'x\ny', 'other': 1},
                ],
            }
        )
        found, _ = facts_file.parse(text)
        problems = setup.find_problems(change(VGPU, **found))
        self.assertIn('not a vGPU type', problems[0])
