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

"""How often a request is made, on a clock that nobody waits for."""

from collections.abc import Iterable
import json
import typing

import fixtures
from keystoneauth1 import exceptions as ksa_exceptions
import requests
import testtools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.placement import client
from nova_vgpu.placement import connection
from nova_vgpu.placement import synchronisation
from nova_vgpu.publish import decision
from nova_vgpu.publish import providers

PATH = '/resource_providers'


class Clock:
    """Time that passes only when somebody sleeps, or takes time to answer."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def answer(status: int, body: typing.Any = None) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    text = body if isinstance(body, str) else json.dumps(body)
    response._content = b'' if body is None else text.encode()
    return response


Outcome = requests.Response | Exception


class Adapter:
    """Answers with what it is told, one after the other; the last stays."""

    def __init__(
        self, clock: Clock, outcomes: Iterable[Outcome], takes: float = 0
    ) -> None:
        self._clock = clock
        self._outcomes = list(outcomes)
        self._takes = takes
        self.calls: list[tuple[str, str]] = []
        self.timeouts: list[float] = []
        self.microversions: list[str] = []

    def request(
        self, path: str, method: str, **arguments: typing.Any
    ) -> requests.Response:
        self.calls.append((method, path))
        self.timeouts.append(arguments['timeout'])
        self.microversions.append(arguments['microversion'])
        self._clock.now += self._takes
        outcome = self._outcomes[0]
        if len(self._outcomes) > 1:
            del self._outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


GOOD = answer(200, {'good': True})
RETRIED: tuple[Outcome, ...] = (
    answer(500),
    answer(502, '<html>'),
    answer(503, {'errors': [{'detail': 'busy'}]}),
    answer(429),
    answer(200, '{"cut'),
    ksa_exceptions.ConnectFailure('refused'),
    ksa_exceptions.ConnectTimeout('timed out'),
    ksa_exceptions.UnknownConnectionError('broken', OSError()),
    ksa_exceptions.ServiceUnavailable('Keystone is busy'),
)
GIVEN_UP: tuple[Outcome, ...] = (
    answer(400, {'errors': [{'detail': 'what?'}]}),
    answer(401, 'who?'),
    answer(403),
    answer(404),
    ksa_exceptions.Unauthorized('no'),
    ksa_exceptions.EndpointNotFound('nowhere'),
    ksa_exceptions.SSLError('not trusted'),
)


class RequestTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.clock = Clock()

    def requester(
        self,
        *outcomes: Outcome,
        takes: float = 0,
        **options: typing.Any,
    ) -> connection.Requester:
        self.adapter = Adapter(self.clock, outcomes, takes)
        return connection.Requester(
            typing.cast(typing.Any, self.adapter),
            connection.RetryPolicy(
                clock=self.clock, sleep=self.clock.sleep, **options
            ),
        )


class TestRequester(RequestTestCase):
    def test_an_answer_is_an_answer(self) -> None:
        found = self.requester(GOOD).call('GET', PATH)
        self.assertEqual({'good': True}, found)
        self.assertEqual([('GET', PATH)], self.adapter.calls)
        self.assertIsNone(self.requester(answer(204)).call('PUT', PATH))

    def test_what_may_pass_is_tried_again(self) -> None:
        for outcome in RETRIED:
            found = self.requester(outcome, outcome, GOOD).call('PUT', PATH)
            self.assertEqual({'good': True}, found, str(outcome))
            self.assertEqual([('PUT', PATH)] * 3, self.adapter.calls)

    def test_what_will_not_pass_is_not(self) -> None:
        for outcome in GIVEN_UP:
            self.assertRaises(
                exception.PlacementError,
                self.requester(outcome, GOOD).call,
                'GET',
                PATH,
            )
            self.assertEqual(1, len(self.adapter.calls), str(outcome))
        self.assertEqual([], self.clock.slept)

    def test_the_waits_grow_and_the_deadline_holds(self) -> None:
        requester = self.requester(
            answer(503), deadline=20, first_wait=1, longest_wait=4
        )
        error = self.assertRaises(
            exception.PlacementError, requester.call, 'GET', PATH
        )
        self.assertIn('does not answer', str(error))
        self.assertIn('503', str(error))
        self.assertLess(sum(self.clock.slept), 20)
        self.assertGreater(sum(self.clock.slept), 20 - 4)
        for number, slept in enumerate(self.clock.slept):
            longest = min(2**number, 4)
            self.assertTrue(longest / 2 <= slept <= longest, str(slept))

    def test_slow_answers_count_against_the_deadline(self) -> None:
        requester = self.requester(
            ksa_exceptions.ConnectTimeout('slow'), takes=30, deadline=60
        )
        self.assertRaises(
            exception.PlacementError, requester.call, 'GET', PATH
        )
        self.assertEqual(2, len(self.adapter.calls))

    def test_an_attempt_has_a_timeout(self) -> None:
        self.requester(GOOD, timeout=7).call('GET', PATH)
        self.assertEqual([7], self.adapter.timeouts)

    def test_conflicts_are_told_apart(self) -> None:
        provider = f'{PATH}/some-uuid'
        for status, path, conflict in (
            (409, PATH, True),
            (409, provider, True),
            (404, provider, True),
            (404, PATH, False),
            (400, provider, False),
        ):
            error = self.assertRaises(
                exception.PlacementError,
                self.requester(answer(status)).call,
                'PUT',
                path,
            )
            self.assertEqual(conflict, isinstance(error, client.Conflict))

    def test_no_credentials_in_messages(self) -> None:
        url = 'https://admin:s3cret@cloud.example.org/placement'
        for outcome in (
            ksa_exceptions.ConnectFailure(f'no connection to {url}: no'),
            ksa_exceptions.SSLError(f'SSL exception connecting to {url}'),
            ksa_exceptions.Unauthorized(f'not at {url}'),
        ):
            error = self.assertRaises(
                exception.PlacementError,
                self.requester(outcome).call,
                'GET',
                PATH,
            )
            self.assertNotIn('s3cret', str(error))
            self.assertIn('cloud.example.org', str(error))


class TestSynchronisation(RequestTestCase):
    """Reading and deciding again, by values alone."""

    def sync(self, conflicts: int, *outcomes: Outcome) -> list[values.Change]:
        placement = client.PlacementClient(
            self.requester(*outcomes, conflicts=conflicts)
        )
        target = providers.Target(values.Plan(), 'node')
        wanted = {f'CUSTOM_{letter}' for letter in 'ABC'}
        made: list[values.Change] = []
        self.reads = 0

        def read(*_: object) -> values.PlacementTree:
            self.reads += 1
            return values.PlacementTree('node')

        def decide(*_: object) -> values.Difference:
            missing = sorted(wanted - {change.name for change in made})
            return values.Difference(tuple(map(values.CreateTrait, missing)))

        with (
            fixtures.MockPatchObject(placement, 'read_tree', read),
            fixtures.MockPatchObject(decision, 'decide', decide),
        ):
            synchronisation.sync(placement, target, made.append)
        return made

    def test_without_conflicts_one_read_is_enough(self) -> None:
        self.assertEqual(3, len(self.sync(5, answer(204))))
        self.assertEqual(1, self.reads)
        self.assertEqual([], self.clock.slept)

    def test_after_a_conflict_everything_is_read_anew(self) -> None:
        made = self.sync(5, answer(204), answer(409), answer(204))
        self.assertEqual(
            ['CUSTOM_A', 'CUSTOM_B', 'CUSTOM_C'], [c.name for c in made]
        )
        self.assertEqual(2, self.reads)

    def test_it_gives_up_after_so_many_in_a_row(self) -> None:
        error = self.assertRaises(
            exception.PlacementError, self.sync, 3, answer(409)
        )
        self.assertEqual(4, self.reads)
        self.assertIn('persists after 4 attempts', str(error))

    def test_progress_starts_the_count_anew(self) -> None:
        conflict, good = answer(409), answer(204)
        made = self.sync(
            2,
            *(conflict, conflict, good),
            *(conflict, conflict, good),
            *(conflict, conflict, good),
        )
        self.assertEqual(3, len(made))


class TestReshape(RequestTestCase):
    change = values.Reshape('node', (), (), ())

    def test_the_types_of_consumers_stay_as_they_are(self) -> None:
        """Since 1.38 one has to be given; Nova's servers have none."""
        placement = client.PlacementClient(self.requester(answer(204)))
        placement.apply(self.change, {})
        self.assertEqual(['1.37'], self.adapter.microversions)

    def test_who_may_not_is_told_who_may(self) -> None:
        refusal = answer(403, {'errors': [{'detail': 'Policy says no'}]})
        placement = client.PlacementClient(self.requester(refusal))
        error = self.assertRaises(
            exception.PlacementError, placement.apply, self.change, {}
        )
        for words in ('Policy says no', '"service"', '[placement]'):
            self.assertIn(words, str(error))
