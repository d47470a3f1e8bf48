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

"""Suggestions for mistyped words, by difflib.

Not difflib.get_close_matches: it neither shows whether the best match is
unique
nor prefers two swapped characters."""

from collections.abc import Iterable
import difflib

_LEAST_ALIKE = 0.7


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
