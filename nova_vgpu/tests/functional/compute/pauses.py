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

"""How long Nova's tests pause between two looks at what they wait for.

They look twice a second, so that each server that is built costs half a second
of waiting. Here the first pause is short and each one is twice the one before:
what is done soon is seen soon, and what takes its time is waited for about as
long as before.
"""

import sys
import threading
import time
import types
import typing

import fixtures
from nova.tests.functional import integrated_helpers

_FIRST = 0.02
#: The longest pause, as a multiple of Nova's.
_LONGEST = 2


class GrowingPauses(fixtures.Fixture):
    """Takes the place of ``time`` in the helpers of Nova's tests."""

    def _setUp(self) -> None:
        pauses = _Pauses()
        self.useFixture(
            fixtures.MockPatchObject(
                integrated_helpers,
                'time',
                types.SimpleNamespace(sleep=pauses.sleep),
            )
        )


class _Pauses(threading.local):
    """The pauses of one thread."""

    def __init__(self) -> None:
        self._waiting: typing.Any = None
        self._next = _FIRST

    def sleep(self, seconds: float) -> None:
        # A call of a method that waits has a frame of its own.
        waiting = sys._getframe(1)
        if waiting is not self._waiting:
            self._waiting, self._next = waiting, _FIRST
        time.sleep(min(self._next, _LONGEST * seconds))
        self._next *= 2
