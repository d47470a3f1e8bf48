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

"""The checks by name, and how they are run and told of."""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import sys
import time
import traceback
import types

Body = Callable[[], None]


class Failed(Exception):
    """Something is not as it should be."""


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """A check, under the name that is printed."""

    name: str
    body: Body


_checks: list[Check] = []


def check(name: str) -> Callable[[Body], Body]:
    """Have a function run as a check, after those above it."""

    def register(body: Body) -> Body:
        _checks.append(Check(name, body))
        return body

    return register


def same(what: str, found: object, wanted: object) -> None:
    """Fail unless what was found is what was wanted."""
    if found != wanted:
        raise Failed(f'{what} is {found!r}, not {wanted!r}')


def wait_for(
    what: str, condition: Callable[[], object], seconds: float = 20.0
) -> None:
    """Fail unless a condition comes true in time.

    A file or a process that is not there is a condition that is not true yet.
    """
    deadline = time.monotonic() + seconds
    pause = 0.01
    while True:
        try:
            if condition():
                return
        except (FileNotFoundError, ProcessLookupError):
            pass
        if time.monotonic() > deadline:
            raise Failed(f'not within {seconds:g} s: {what}')
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)


def run(modules: Sequence[types.ModuleType], clean: Body) -> int:
    """Run the checks of these modules, in this order.

    Something is run after each to put the machine in order.

    :returns: how many failed.
    """
    order = [module.__name__ for module in modules]
    chosen = sorted(
        (each for each in _checks if each.body.__module__ in order),
        key=lambda each: order.index(each.body.__module__),
    )
    failed = 0
    for each in chosen:
        began = time.monotonic()
        outcomes = (_run_one(each.body), _run_one(clean))
        reason = next(filter(None, outcomes), None)
        took = f'({time.monotonic() - began:.1f} s)'
        if reason is None:
            print(f'ok {each.name} {took}')
        else:
            failed += 1
            print(f'FAILED {each.name}: {reason} {took}')
        sys.stdout.flush()
    print(f'{len(chosen)} checks, {failed} failed')
    return failed


def _run_one(body: Body) -> str | None:
    """Why it failed, if it did."""
    try:
        body()
    except Failed as e:
        return str(e)
    except Exception as e:
        # Each check is on its own: whatever is wrong with one of them, the
        # others are to be heard.
        traceback.print_exc()
        return f'{type(e).__name__}: {e}'
    return None
