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

"""The ``description`` file of an mdev type.

NVIDIA writes one line of ``key=value`` pairs, Intel several lines of
``key: value``. Both are read by one rule, and an invalid value is
ignored.
"""

import re

from nova_vgpu import values

_PAIR = re.compile(r'([a-z_]{1,32})\s*[=:]\s*([^,\n]{1,64})')
_NUMBER = re.compile(r'([0-9]{1,9})', re.ASCII)
_MEBIBYTES = re.compile(r'([0-9]{1,9})M', re.ASCII)
_RESOLUTION = re.compile(r'([0-9]{1,5})x([0-9]{1,5})', re.ASCII)


def parse_description(text: str) -> values.TypeFacts:
    """Parse the text; missing facts stay unknown."""
    pairs = {key: value.strip() for key, value in _PAIR.findall(text)}
    return values.TypeFacts(
        framebuffer_mib=_whole(_MEBIBYTES, pairs.get('framebuffer')),
        max_instances=_whole(_NUMBER, pairs.get('max_instance')),
        heads=_whole(_NUMBER, pairs.get('num_heads')),
        max_resolution=_resolution(
            pairs.get('max_resolution', pairs.get('resolution'))
        ),
    )


def _whole(pattern: re.Pattern[str], text: str | None) -> int | None:
    match = pattern.fullmatch(text) if text is not None else None
    return int(match[1]) or None if match else None


def _resolution(text: str | None) -> values.Resolution | None:
    match = _RESOLUTION.fullmatch(text) if text is not None else None
    if match is None:
        return None
    width, height = int(match[1]), int(match[2])
    return values.Resolution(width, height) if width and height else None
