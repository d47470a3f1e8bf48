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

"""What is kept of Placement's answers, and what a request claims."""

import concurrent.futures
import typing

import fixtures
import testtools

from nova_vgpu import values
from nova_vgpu.scheduler import answers
from nova_vgpu.scheduler import ordering
from nova_vgpu.scheduler import request
from nova_vgpu.tests.unit.scheduler import answered

PACKED = values.SchedulingRules()


class Client:
    """In place of Nova's."""

    def __init__(self, answer: answers.Answer) -> None:
        self.answer = answer
        self.asked = 0

    def get_allocation_candidates(
        self, context: object, resources: object
    ) -> answers.Answer:
        """Nova's words."""
        self.asked += 1
        return self.answer


class AnswersTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.client_class: typing.Any = type('Client', (Client,), {})

    def ask(
        self, answer: answers.Answer, context: object = None
    ) -> answers.Answer:
        client = self.client_class(answer)
        found = client.get_allocation_candidates(context or object(), 'VGPU')
        self.assertEqual(1, client.asked)
        return typing.cast('answers.Answer', found)

    def listen(
        self, rules: values.SchedulingRules = PACKED
    ) -> answers.Answers:
        return answers.listen(self.client_class, rules)

    def known(self, kept: answers.Answers) -> request.Request:
        assert kept.request is not None
        return kept.request


class TestListening(AnswersTestCase):
    def test_nova_gets_its_answer_and_the_weigher_the_gpus(self) -> None:
        kept = self.listen()
        self.assertIsNone(kept.request)
        gpus = {'gpu1': answered.gpu(1), 'gpu2': answered.gpu(0)}
        answer = answered.answer(**gpus)
        self.assertIs(answer, self.ask(answer))
        self.assertEqual(gpus, self.known(kept).found.gpus)

    def test_candidates_are_sorted_for_a_host_that_is_alone(self) -> None:
        """Nova does not ask weighers about a single host."""
        self.listen()
        candidates, _, _ = answer = answered.answer(
            gpu1=answered.gpu(0), gpu2=answered.gpu(2), gpu3=answered.gpu(1)
        )
        one, two, three = candidates
        self.ask(answer)
        self.assertEqual([two, three, one], candidates)

    def test_it_is_put_in_once(self) -> None:
        first = self.listen()
        again = self.listen(answered.BOTH_SPREAD)
        self.assertIs(first, again)
        self.assertEqual(answered.BOTH_SPREAD, again.rules)
        method = self.client_class.get_allocation_candidates
        self.assertEqual("Nova's words.", method.__doc__)
        self.assertIs(
            Client.get_allocation_candidates,
            method.__wrapped__,
        )

    def test_placement_that_is_down_is_novas_to_handle(self) -> None:
        kept = self.listen()
        nothing: tuple[answers.Answer, ...] = (
            None,
            (None, None, None),
            ([], {}, '1.36'),
        )
        for answer in nothing:
            self.assertIs(answer, self.ask(answer))
            self.assertEqual({}, self.known(kept).found.gpus)

    def test_each_thread_has_its_own(self) -> None:
        kept = self.listen()
        self.ask(answered.answer(gpu1=answered.gpu(1)))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            self.assertIsNone(pool.submit(lambda: kept.request).result())
            pool.submit(
                self.ask, answered.answer(gpu2=answered.gpu(0))
            ).result()
        self.assertEqual(['gpu1'], list(self.known(kept).found.gpus))

    def test_two_answers_to_one_request_are_taken_together(self) -> None:
        """Nova asks again, for PCPUs as VCPUs."""
        kept, context = self.listen(), object()
        self.ask(answered.answer(gpu1=answered.gpu(1)), context)
        self.ask(answered.answer(gpu2=answered.gpu(0)), context)
        self.assertEqual({'gpu1', 'gpu2'}, set(self.known(kept).found.gpus))
        self.ask(answered.answer(gpu3=answered.gpu(0)), object())
        self.assertEqual({'gpu3'}, set(self.known(kept).found.gpus))

    def test_summaries_are_not_read_for_plain_servers(self) -> None:
        _, summaries, version = answered.answer(gpu1=answered.gpu(1))
        plain: answers.Answer = (
            [answered.candidate('host1')],
            summaries,
            version,
        )
        kept = self.listen()
        self.ask(plain)
        self.assertEqual({}, self.known(kept).found.gpus)
        self.listen(values.SchedulingRules(plain_servers_avoid_gpus=True))
        self.ask(plain)
        self.assertEqual({'gpu1'}, set(self.known(kept).found.gpus))

    def test_what_is_broken_is_logged_once(self) -> None:
        kept = self.listen()
        candidates, summaries, _ = answer = answered.answer(
            gpu1=answered.gpu(1), gpu2=answered.gpu(0, host='host2')
        )
        summaries['gpu1']['resources']['VGPU']['used'] = None
        for _ in range(2):
            self.ask(answer)
        self.assertEqual(1, self.log.output.count('neutral weight'))
        self.assertIn('inventory list gpu1', self.log.output)
        weigh = self.known(kept).weigh
        self.assertEqual(ordering.NEUTRAL, weigh('host1', 0, [candidates[0]]))
        self.assertNotEqual(
            ordering.NEUTRAL, weigh('host2', 0, [candidates[1]])
        )

    def test_what_is_broken_is_not_taken_for_a_host_without_gpus(self) -> None:
        rules = values.SchedulingRules(plain_servers_avoid_gpus=True)
        kept = self.listen(rules)
        candidates, summaries, _ = answer = answered.answer(
            gpu1=answered.gpu(1)
        )
        summaries['gpu1']['resources'] = None
        self.ask(answer)
        weight = self.known(kept).weigh('host1', 0, candidates)
        self.assertEqual(ordering.NEUTRAL, weight)


class TestClaims(AnswersTestCase):
    """A request for several servers."""

    def setUp(self) -> None:
        super().setUp()
        self.kept = self.listen()
        self.candidates, _, _ = answer = answered.answer(
            gpu1=answered.gpu(2, capacity=3), gpu2=answered.gpu(0)
        )
        self.one, self.two = self.candidates
        self.ask(answer)

    def weigh(self, servers: int) -> float:
        return self.known(self.kept).weigh('host1', servers, self.candidates)

    def test_a_gpu_that_the_request_filled_is_not_tried_again(self) -> None:
        before = self.weigh(5)
        self.assertIs(self.one, self.candidates[0])
        after = self.weigh(6)
        self.assertIs(self.two, self.candidates[0])
        self.assertLess(after, before)

    def test_a_host_that_it_filled_comes_last(self) -> None:
        for servers in range(5, 10):
            self.assertLess(ordering.NO_ROOM, self.weigh(servers))
        self.assertEqual(ordering.NO_ROOM, self.weigh(10))

    def test_a_host_that_was_not_taken_is_as_before(self) -> None:
        self.assertEqual(self.weigh(5), self.weigh(5))

    def test_another_request_with_this_context_starts_over(self) -> None:
        context = object()
        gpus = {'gpu1': answered.gpu(1), 'gpu2': answered.gpu(0)}
        self.ask(answered.answer(**gpus), context)
        self.weigh(5)
        self.ask(answered.answer(gpu1=answered.gpu(1)), context)
        self.assertEqual(['gpu1'], list(self.known(self.kept).found.gpus))
