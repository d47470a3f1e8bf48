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

"""The thread that reconciles: when it works, and when it ends."""

import threading

import testtools

from nova_vgpu.compute import service

PATIENCE = 60.0
#: So long that a test would not end before it.
NEVER = 3600.0


class Work:
    """Something to do, which a test can hold up."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        self.begun.release()
        self.may_end.acquire(timeout=PATIENCE)


class ReconcileThreadTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.work = Work()

    def make(self, seconds: float = NEVER) -> service.ReconcileThread:
        thread = service.ReconcileThread(self.work, seconds)
        self.addCleanup(thread.stop, PATIENCE)
        self.addCleanup(self.work.may_end.release, 1000)
        return thread

    def test_nothing_is_done_before_it_is_started(self) -> None:
        thread = self.make()
        thread.wake()
        self.assertFalse(self.work.begun.acquire(blocking=False))
        # What was asked for before is done then.
        thread.start()
        self.assertTrue(self.work.begun.acquire(timeout=PATIENCE))

    def test_it_works_at_an_interval(self) -> None:
        self.make(seconds=0.001).start()
        self.work.may_end.release(3)
        for _ in range(3):
            self.assertTrue(self.work.begun.acquire(timeout=PATIENCE))

    def test_who_asks_meanwhile_gets_one_more_pass(self) -> None:
        thread = self.make()
        thread.start()
        first = thread.wake()
        self.assertTrue(self.work.begun.acquire(timeout=PATIENCE))
        last = [thread.wake() for _ in range(5)][-1]
        self.assertFalse(thread.wait(first, 0))
        self.work.may_end.release()
        self.assertTrue(thread.wait(first, PATIENCE))
        self.assertTrue(self.work.begun.acquire(timeout=PATIENCE))
        self.assertFalse(thread.wait(last, 0))
        self.work.may_end.release()
        self.assertTrue(thread.wait(last, PATIENCE))
        self.assertEqual(2, self.work.count)

    def test_it_ends_after_what_it_is_doing(self) -> None:
        thread = self.make()
        thread.start()
        thread.start()  # there is one already
        thread.wake()
        self.assertTrue(self.work.begun.acquire(timeout=PATIENCE))
        thread.stop(0)  # waits no longer than that
        self.work.may_end.release()
        thread.stop(PATIENCE)
        thread.wake()
        self.assertFalse(self.work.begun.acquire(blocking=False))
        self.assertTrue(thread.wait(thread.wake(), 0), 'waits for ever')
