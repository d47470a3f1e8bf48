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

"""Entries of a list that contain a comment or several values.

oslo.config splits a list at commas and does not support comments after a
value, so ``A40-8Q  # ours`` and ``84:00.0 85:00.0`` are one entry each.
"""

import re

from nova_vgpu.knowledge import capabilities

_COMMENT = re.compile(r'(^|\s)[#;]')
_OTHER_SEPARATORS = re.compile(r'[\s;]+')


def find_cure(entry: str) -> str | None:
    """The cure for an entry that is more than one; None if it is not."""
    if _COMMENT.search(entry):
        return 'Put comments on separate lines.'
    parts = _OTHER_SEPARATORS.split(entry.strip())
    several = len(parts) > 1 and all(
        ':' in part or capabilities.vendor_of_type(part) for part in parts
    )
    return 'Separate entries with commas.' if several else None
