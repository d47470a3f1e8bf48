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

"""User data for cloud-init, from what a guest has to get.

The scripts in it are constant text. Everything else is data: a scalar is
written as a string of JSON, which YAML reads the same, and text of several
lines as a literal block, so no value can become another key or a command.
"""

import base64
from collections.abc import Iterator
import inspect
import json
import re

from nova_vgpu.guest import setup
from nova_vgpu.guest import setup_program

PROGRAM = '/usr/local/sbin/nova-vgpu-guest-setup'
#: Nova refuses user data that is longer than this in Base64: the maximum of
#: user_data in nova/api/openstack/compute/schemas/servers.py.
MOST_CHARACTERS = 65535
HEADER = '#cloud-config\n'

# Without white space at the start or the end, or at the end of a line, all of
# which a literal block would need more than this for.
_BLOCK = re.compile(r'[!-~](?:[\n -~]*[!-~])?\n')


def render(wanted: setup.Setup) -> str:
    """The user data; the same setup gives the same text."""
    lines = ['write_files:']
    for file in list_files(wanted):
        lines += _render_file(file)
    lines += ['runcmd:', f'- [{json.dumps(PROGRAM)}]']
    return HEADER + ''.join(f'{line}\n' for line in lines)


def list_files(wanted: setup.Setup) -> tuple[setup.File, ...]:
    """The files of a guest, and last the program that does the rest."""
    program = inspect.getsource(setup_program).encode('ascii')
    return (*wanted.files, setup.File(PROGRAM, 0o755, program))


def count_characters(user_data: str) -> int:
    """The length that counts for Nova."""
    return len(base64.b64encode(user_data.encode('ascii')))


def _render_file(file: setup.File) -> Iterator[str]:
    yield f'- path: {json.dumps(file.path)}'
    yield '  owner: "root:root"'
    yield f'  permissions: "{file.mode:04o}"'
    text = file.content.decode('ascii', errors='replace')
    if file.is_secret or not _BLOCK.fullmatch(text):
        yield '  encoding: b64'
        encoded = base64.b64encode(file.content).decode('ascii')
        yield f'  content: {json.dumps(encoded)}'
        return
    yield '  content: |'
    for line in text.splitlines():
        yield f'    {line}' if line else ''
