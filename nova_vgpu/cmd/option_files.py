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

"""The files that options name."""

import os

from nova_vgpu.host import files


def read(
    option: str, path: str | None
) -> tuple[bytes | None, tuple[str, ...]]:
    """The content of a file, and what is wrong with it.

    If it cannot be read, the content is empty, which is not missing.
    """
    if path is None:
        return None, ()
    directory, name = os.path.split(path)
    if not name:
        return b'', (f'{option} {path}: the name of a file is missing.',)
    try:
        content = files.Files(directory or '.').read_binary(name)
    except files.Unreadable as error:
        return b'', (f'{option}: {path}: {error.reason}.',)
    if not content.strip():
        return b'', (f'{option}: {path} is empty.',)
    return content, ()
