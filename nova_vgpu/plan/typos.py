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

"""Suggestions for what is mistyped: words, and entries of lists.

Words are compared by difflib, not by difflib.get_close_matches: it neither
shows whether the best match is unique nor prefers two swapped characters.

oslo.config splits a list at commas and does not support comments after a
value, so ``A40-8Q  # ours`` and ``84:00.0 85:00.0`` are one entry each.
"""

from collections.abc import Iterable
import difflib
import re

from nova_vgpu.knowledge import capabilities

_LEAST_ALIKE = 0.7
_COMMENT = re.compile(r'(^|\s)[#;]')
_OTHER_SEPARATORS = re.compile(r'[\s;]+')


def find_nearest(text: str, candidates: Iterable[str]) -> str | None:
    """The candidate most similar to the text; None if there is no single one.

    Swapped characters are the most frequent mistake.
    """
    alike: dict[float, list[str]] = {}
    for other in candidates:
        alike.setdefault(_likeness(text, other), []).append(other)
    best = max(alike, default=0.0)
    # Several equally similar ones do not help.
    if best < _LEAST_ALIKE or len(alike[best]) > 1:
        return None
    return alike[best][0]


def _likeness(text: str, other: str) -> float:
    text, other = text.casefold(), other.casefold()
    swapped = sorted(text) == sorted(other)
    return difflib.SequenceMatcher(None, text, other).ratio() + swapped


def find_list_cure(entry: str) -> str | None:
    """The cure for an entry that is more than one; None if it is not."""
    if _COMMENT.search(entry):
        return 'Put comments on separate lines.'
    parts = _OTHER_SEPARATORS.split(entry.strip())
    several = len(parts) > 1 and all(
        ':' in part or capabilities.vendor_of_type(part) for part in parts
    )
    return 'Separate entries with commas.' if several else None
