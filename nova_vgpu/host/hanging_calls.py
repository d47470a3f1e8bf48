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

"""Calls that can hang in a driver, with a timeout.

Such a call cannot be interrupted, not even by killing the process. It blocks
only a thread of its own. Until it returns, no other call of its name is made.
"""

from collections.abc import Callable
from concurrent import futures
import threading
import typing

_Answer = typing.TypeVar('_Answer')


class StillHangsError(Exception):
    """An earlier call of the same name has not returned."""


class TimedOutError(Exception):
    """The call did not return in time; the text says so."""


def call(work: Callable[[], _Answer], name: str, seconds: float) -> _Answer:
    """What a call returns, or raises.

    :param name: of what it calls; seen as the name of a thread.
    :raises StillHangsError: if an earlier one timed out and goes on.

    :raises TimedOutError: if it does not return in time.
    """
    hangs = f'nova-vgpu: {name} hangs'
    if any(thread.name == hangs for thread in threading.enumerate()):
        raise StillHangsError(name)
    outcome: futures.Future[_Answer] = futures.Future()

    def run() -> None:
        try:
            answer = work()
        except BaseException as error:  # any error is for the caller
            outcome.set_exception(error)
        else:
            outcome.set_result(answer)

    thread = threading.Thread(
        target=run, name=f'nova-vgpu: {name}', daemon=True
    )
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        thread.name = hangs
        raise TimedOutError(f'timed out after {seconds:g} s')
    return outcome.result()
