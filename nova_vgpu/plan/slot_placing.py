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

"""Whether vGPUs of several sizes can be placed in the memory of a GPU.

Each takes a number of slots, and begins at one of those that its type allows.
"""

import bisect
import collections
from collections.abc import Sequence

from nova_vgpu import values


def can_place(wanted: Sequence[tuple[values.TypeSlots, int]]) -> bool:
    """Whether so many vGPUs of each type can be on a GPU at once.

    From the first slot to the last one, the largest first: where it can be
    done, that way is usually found at once. What failed from a slot on is not
    tried again, and nothing is for which too few slots are left.
    """
    kinds: collections.Counter[tuple[int, tuple[int, ...]]] = (
        collections.Counter()
    )
    for slots, count in wanted:  # those of 4Q and 4C are alike
        kinds[slots.size, slots.starts] += count
    of_kind = sorted(kinds)
    starts = sorted({start for _, places in of_kind for start in places})
    end = max((max(places) + size for size, places in of_kind), default=0)
    tried: set[tuple[int, tuple[int, ...]]] = set()
    ways = [(0, tuple(kinds[kind] for kind in of_kind))]
    while ways:
        at, left = ways.pop()
        if not any(left):
            return True
        place = bisect.bisect_left(starts, at)
        needed = sum(
            kind[0] * n for kind, n in zip(of_kind, left, strict=True)
        )
        if (
            place == len(starts)
            or starts[place] + needed > end
            or (place, left) in tried
        ):
            continue
        tried.add((place, left))
        at = starts[place]
        ways.append((at + 1, left))
        for index, (size, places) in enumerate(of_kind):
            if left[index] and at in places:
                less = (*left[:index], left[index] - 1, *left[index + 1 :])
                ways.append((at + size, less))
    return False
