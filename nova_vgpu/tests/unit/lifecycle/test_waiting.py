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

"""What ends a wait of the agent."""

import os
import threading
import time

import testtools

from nova_vgpu.host import systemd
from nova_vgpu.lifecycle import agent

LONG = 600.0


class Pipe:
    """Events that come when the test says so."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK)

    def fileno(self) -> int:
        return self._reader

    def drain(self) -> None:
        self.drained = os.read(self._reader, 1000)

    def happen(self) -> None:
        os.write(self._writer, b'.')

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class Heart(systemd.Notifier):
    """Counts the signs of life."""

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__({})
        self.watchdog_seconds = seconds
        self.beats = 0

    def beat(self) -> None:
        self.beats += 1


class WaiterTestCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.events = Pipe()
        self.addCleanup(self.events.close)
        self.heart = Heart()

    def make(self, crowd: float = 0.0) -> agent.Waiter:
        waiter = agent.Waiter(self.heart, self.events, crowd)
        self.addCleanup(waiter.__exit__, None, None, None)
        return waiter

    def test_the_interval_ends_it(self) -> None:
        began = time.monotonic()
        self.events.drain = lambda: None  # type: ignore[method-assign] # a quiet one
        self.make().wait(0.05)
        self.assertGreaterEqual(time.monotonic() - began, 0.05)

    def test_an_event_ends_it_and_is_forgotten(self) -> None:
        self.events.happen()
        self.make().wait(LONG)
        self.assertEqual(b'.', self.events.drained)

    def test_a_crowd_of_events_is_one(self) -> None:
        self.events.happen()
        timer = threading.Timer(0.05, self.events.happen)
        timer.start()
        self.addCleanup(timer.join)
        self.make(crowd=0.5).wait(LONG)
        self.assertEqual(b'..', self.events.drained)

    def test_the_word_to_stop_ends_it(self) -> None:
        waiter = self.make()
        timer = threading.Timer(0.05, waiter.stop)
        timer.start()
        self.addCleanup(timer.join)
        self.events.drain = lambda: None  # type: ignore[method-assign] # a quiet one
        self.assertRaises(agent.Stopped, waiter.wait, LONG)

    def test_the_word_is_not_missed_before_the_wait(self) -> None:
        waiter = self.make(crowd=LONG)
        waiter.stop()
        waiter.stop()
        self.events.happen()
        self.assertRaises(agent.Stopped, waiter.wait, LONG)
        self.assertRaises(agent.Stopped, waiter.require_going_on)

    def test_it_can_be_woken_and_waits_again_after_that(self) -> None:
        waiter = self.make(crowd=LONG)
        self.events.drain = lambda: None  # type: ignore[method-assign] # a quiet one
        timer = threading.Timer(0.05, waiter.wake)
        timer.start()
        self.addCleanup(timer.join)
        self.assertTrue(waiter.wait(LONG))
        waiter.wake()  # not missed before the wait
        waiter.wake()
        self.assertTrue(waiter.wait(LONG))
        began = time.monotonic()
        self.assertFalse(waiter.wait(0.05))
        self.assertGreaterEqual(time.monotonic() - began, 0.05)

    def test_it_ends_the_pause_for_a_crowd_too(self) -> None:
        waiter = self.make(crowd=LONG)
        self.events.happen()
        timer = threading.Timer(0.05, waiter.stop)
        timer.start()
        self.addCleanup(timer.join)
        self.assertRaises(agent.Stopped, waiter.wait, LONG)

    def test_systemd_hears_of_it_all_the_while(self) -> None:
        self.heart = Heart(0.03)
        self.events.drain = lambda: None  # type: ignore[method-assign] # a quiet one
        self.make().wait(0.2)
        self.assertGreater(self.heart.beats, 5)
