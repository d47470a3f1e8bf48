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

"""The names of vGPU types, from the vendor's own list of them.

In the vendor-specific VFIO framework a function that is set to a type shows
its number alone, and a GPU that is full names no types at all. NVIDIA's vGPU
manager comes with a file that names every type of the release::

    <vgpuType id="1155" name="NVIDIA L40S-24Q" class="Quadro"> ...

(Read by NVIDIA/vgpu-device-manager and by xapi in the same way.)
"""

import dataclasses
from xml.etree import ElementTree

from nova_vgpu import values
from nova_vgpu.host import files

DEFAULT_PATH = '/usr/share/nvidia/vgpu/vgpuConfig.xml'

_MOST_BYTES = 32 * 1024 * 1024


def complete(host: values.Host, path: str) -> values.Host:
    """The host with the names that it cannot tell itself, if there are any.

    The file is large, and only opened if a vGPU has a type without a name. A
    host without it is as it was.
    """
    named = {t.id for gpu in host.gpus for t in gpu.types if t.name}
    unnamed = {
        vgpu.type_id
        for gpu in host.gpus
        for vgpu in gpu.all_vgpus
        if vgpu.uuid is None and vgpu.type_id not in named
    }
    if not unnamed:
        return host
    directory, _, name = path.rpartition('/')
    try:
        text = files.Files(directory, _MOST_BYTES).read(name)
        known = _parse(text)
    except files.Unreadable as error:
        if error.gone:
            return host
        fault = values.ReadFault(name, error.path, error.reason)
    except (ElementTree.ParseError, ValueError) as error:
        fault = values.ReadFault(name, path, str(error))
    else:
        found = tuple(
            (type_id, known[type_id])
            for type_id in sorted(unnamed)
            if type_id in known
        )
        return dataclasses.replace(host, type_names=found)
    return dataclasses.replace(host, faults=(*host.faults, fault))


def _parse(text: str) -> dict[str, str]:
    # From the vendor's package, which is trusted; expat bounds expansion.
    root = ElementTree.fromstring(text)  # noqa: S314
    return {
        f'nvidia-{int(element.get("id", ""))}': element.get('name', '').strip()
        for element in root.iter('vgpuType')
        if element.get('name')
    }
