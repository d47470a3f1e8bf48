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

"""A process beside nova-compute that would create a vGPU.

A program: for each line that it reads, it tries once to get the lock, and
prints whether it is held or free.
"""

import sys

from nova_vgpu import exception
from nova_vgpu.host import locks


def main(directory: str) -> None:
    for _ in sys.stdin:
        print(_try(directory), flush=True)


def _try(directory: str) -> str:
    try:
        with locks.hold_creation(directory, 0):
            return 'free'
    except exception.BusyError:
        return 'held'


if __name__ == '__main__':
    main(sys.argv[1])
