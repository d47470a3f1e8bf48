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

"""What a host is called, as libvirt would say it."""

import socket

import fixtures
import testtools

from nova_vgpu.host import source


class TestNodeName(testtools.TestCase):
    def named(self, name: str, canonical: str | OSError) -> str:
        def resolve(*_arguments: object, **_options: object) -> list[object]:
            if isinstance(canonical, OSError):
                raise canonical
            return [(0, 0, 0, canonical, ())]

        with (
            fixtures.MonkeyPatch('socket.gethostname', lambda: name),
            fixtures.MonkeyPatch('socket.getaddrinfo', resolve),
        ):
            return source.find_own_name()

    def test_it_is_the_full_name_if_there_is_one(self) -> None:
        for case, name, canonical, expected in (
            ('full already', 'cn1.example.org', 'other', 'cn1.example.org'),
            ('by the resolver', 'cn1', 'cn1.example.org', 'cn1.example.org'),
            ('no resolver', 'cn1', socket.gaierror('no'), 'cn1'),
            ('resolved to loopback', 'cn1', 'localhost.localdomain', 'cn1'),
            ('nothing resolved', 'cn1', '', 'cn1'),
            ('loopback itself', 'localhost', 'cn1.example.org', 'localhost'),
        ):
            self.assertEqual(expected, self.named(name, canonical), case)
