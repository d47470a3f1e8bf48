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

"""Why a server is ready or not, as values."""

import dataclasses
import enum


class State(enum.Enum):
    """The state of a server with GPUs, the most severe one first."""

    FAILED = 'failed'
    CHANGING = 'changing'
    ATTENTION = 'attention'
    UNKNOWN = 'unknown'
    STOPPED = 'stopped'
    NO_GPU = 'no GPU'
    READY = 'ready'


class Code(enum.Enum):
    """What is the matter, for machines; the documentation explains each."""

    SERVER_ERROR = 'server-error'
    NO_ALLOCATION = 'no-allocation'
    TOO_FEW = 'too-few'
    BUILDING = 'building'
    IN_PROGRESS = 'in-progress'
    TO_CONFIRM = 'to-confirm'
    FENCED = 'fenced'
    NOT_ASKED = 'not-asked'
    OTHER_HOST = 'other-host'
    OTHER_TYPE = 'other-type'
    TOO_MANY = 'too-many'
    NO_DRIVER = 'no-driver'
    UNLICENSED = 'unlicensed'
    FLAVOR_HIDDEN = 'flavor-hidden'
    NOT_IN_PLACEMENT = 'not-in-placement'
    NOT_PERMITTED = 'not-permitted'
    OTHER_STATUS = 'other-status'
    STOPPED = 'stopped'
    NO_GPU = 'no-gpu'
    READY = 'ready'


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """One reason; ``cure`` is what to do, or empty."""

    code: Code
    state: State
    text: str
    cure: str = ''
