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

"""The names of vGPU types, from the vendor's list.

In the vendor-specific VFIO framework a function that is set to a type shows
only its number, and a GPU without free capacity names no types. NVIDIA's vGPU
manager comes with a file that names every type of the release::

    <vgpuType id="1155" name="NVIDIA L40S-24Q" class="Quadro"> ...

(Read by NVIDIA/vgpu-device-manager and by xapi in the same way.)
"""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
from xml.etree import ElementTree

from nova_vgpu import values
from nova_vgpu.host import files

DEFAULT_PATH = '/usr/share/nvidia/vgpu/vgpuConfig.xml'

_MOST_BYTES = 32 * 1024 * 1024


class Completion:
    """Adds missing type names to a host, which may be read repeatedly.

    The file is large. It is only opened if a vGPU has a type without a name,
    and only read again if it has changed. Without the file nothing changes.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp: object = None
        self._content: Mapping[str, str] | values.ReadFault = {}
        self._last: tuple[values.Host, values.Host] | None = None

    def complete(self, host: values.Host) -> values.Host:
        """The host with those names; the same object for the same input."""
        unnamed = _list_unnamed(host)
        if not unnamed:
            return host
        stamp = files.read_stamp(self._path)
        if stamp != self._stamp:
            self._stamp, self._content = stamp, _read(self._path)
            self._last = None
        if self._last is None or self._last[0] is not host:
            self._last = host, _add(host, unnamed, self._content)
        return self._last[1]


def _list_unnamed(host: values.Host) -> set[str]:
    named = {t.id for gpu in host.gpus for t in gpu.types if t.name}
    return {
        vgpu.type_id
        for gpu in host.gpus
        for vgpu in gpu.all_vgpus
        if vgpu.uuid is None and vgpu.type_id not in named
    }


def _add(
    host: values.Host,
    unnamed: Iterable[str],
    content: Mapping[str, str] | values.ReadFault,
) -> values.Host:
    if isinstance(content, values.ReadFault):
        return dataclasses.replace(host, faults=(*host.faults, content))
    found = tuple(
        (type_id, content[type_id])
        for type_id in sorted(unnamed)
        if type_id in content
    )
    return dataclasses.replace(host, type_names=found) if found else host


def _read(path: str) -> Mapping[str, str] | values.ReadFault:
    """All names of the file; empty if it does not exist."""
    directory, _, name = path.rpartition('/')
    try:
        return _parse(files.Files(directory, _MOST_BYTES).read(name))
    except files.Unreadable as error:
        if error.gone:
            return {}
        return values.ReadFault(name, error.path, error.reason)
    except (ElementTree.ParseError, ValueError) as error:
        return values.ReadFault(name, path, str(error))


def _parse(text: str) -> dict[str, str]:
    # From the vendor's package, which is trusted; expat bounds expansion.
    root = ElementTree.fromstring(text)  # noqa: S314
    return {
        f'nvidia-{int(element.get("id", ""))}': element.get('name', '').strip()
        for element in root.iter('vgpuType')
        if element.get('name')
    }
