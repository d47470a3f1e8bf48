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

"""What someone may have meant who wrote something else."""

from collections.abc import Iterable
import difflib

_LEAST_ALIKE = 0.7


def find_nearest(text: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like the text; None if none is like it.

    Two characters in each other's place are the likeliest slip of all.
    """
    scored = [(_likeness(text, other), other) for other in candidates]
    best, other = max(scored, default=(0.0, ''), key=lambda item: item[0])
    return other if best >= _LEAST_ALIKE else None


def _likeness(text: str, other: str) -> float:
    text, other = text.casefold(), other.casefold()
    swapped = sorted(text) == sorted(other)
    return difflib.SequenceMatcher(None, text, other).ratio() + swapped
