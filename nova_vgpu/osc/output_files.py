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

"""Files that a command writes into a directory that the user names.

A file is there as a whole or not at all, and none is replaced unless that is
asked for: all of them are looked at before the first one is written.
"""

import contextlib
import os
import tempfile

from nova_vgpu import exception
from nova_vgpu.cloud import names
from nova_vgpu.cloud.nodes import documents


def write(
    directory: str,
    found: tuple[documents.Document, ...],
    may_replace: bool = False,
) -> tuple[str, ...]:
    """Write the files; gives their paths.

    :raises UsageError: if one exists, or cannot be written.
    """
    shown = names.printable(directory)
    paths = {os.path.join(directory, each.name): each for each in found}
    there = [path for path in paths if os.path.lexists(path)]
    if there and not may_replace:
        listed = ', '.join(map(names.printable, there))
        raise exception.UsageError(
            f'Nothing was written, as these exist: {listed}. Use another '
            '--output, or --overwrite.'
        )
    try:
        os.makedirs(directory, exist_ok=True)
        for path, each in paths.items():
            _write(path, each.text, may_replace)
    except OSError as error:
        raise exception.UsageError(
            f'--output {shown} cannot be written: {error.strerror}.'
        ) from error
    return tuple(map(names.printable, paths))


def _write(path: str, text: str, may_replace: bool) -> None:
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix='.')
    try:
        with os.fdopen(handle, 'w', encoding='utf-8') as file:
            file.write(text)
            file.flush()
            os.fchmod(handle, 0o644)
            os.fsync(handle)
        if may_replace:
            os.replace(new, path)
        else:
            os.link(new, path)  # fails if a file is there by now
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
