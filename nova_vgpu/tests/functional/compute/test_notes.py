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

"""Notes of vGPUs that were chosen for servers, and the periodic update."""

import contextlib
from unittest import mock

import fixtures
import testtools

from nova_vgpu.compute import migration
from nova_vgpu.compute import nova_types
from nova_vgpu.compute import usage

SERVER = '7a1c3a52-0b6a-4c8e-9f0e-54d2c4c1c003'
OTHER = '7a1c3a52-0b6a-4c8e-9f0e-54d2c4c1c004'
MDEV = 'c1b6ac4a-0b3c-4bd5-8d6d-3a0f8c0a0002'


class Host:
    """As much of a driver as keeps notes."""

    def __init__(self) -> None:
        self.notes: nova_types.Notes = {OTHER: ['never came']}
        nothing = mock.Mock(side_effect=AssertionError)
        self.usage = usage.Usage(
            nothing, lambda: self.notes, nothing, contextlib.nullcontext
        )
        self.live_migration = migration.LiveMigration(
            nothing, nothing, self.usage, nothing, nothing
        )

    def choose(self) -> None:
        """What a hard reboot does for a server whose guest was lost."""
        self.usage.pending.add([MDEV])
        self.notes[SERVER] = [MDEV]


class NotesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(
            fixtures.MockPatchObject(
                migration, '_is_migrating', return_value=False
            )
        )

    def test_a_hard_reboot_during_the_update_keeps_its_note(self) -> None:
        """It chooses just before one of the update's looks, or after it."""
        for part in ('pending', 'notes'):
            for is_before in (True, False):
                self.assert_kept(part, is_before)

    def assert_kept(self, part: str, is_before: bool) -> None:
        host = Host()
        owner, name = (
            (host.usage.pending, 'list')
            if part == 'pending'
            else (host.usage, 'list_notes')
        )
        read = getattr(owner, name)

        def look() -> object:
            undo.cleanUp()  # it chooses once
            if is_before:
                host.choose()
                return read()
            found = read()
            host.choose()
            return found

        undo = fixtures.MockPatchObject(owner, name, look)
        undo.setUp()
        with host.usage.pending.during_operation():
            host.live_migration.drop_old_notes()
        self.assertEqual(
            {SERVER: [MDEV]},
            host.notes,
            f'{part}, before the look: {is_before}',
        )

    def test_a_note_that_was_replaced_is_not_the_one_to_drop(self) -> None:
        """A second migration of a server whose first one never came."""
        host = Host()

        def is_migrating(owner: str) -> bool:
            host.notes[owner] = ['chosen now']
            return False

        with fixtures.MockPatchObject(
            migration, '_is_migrating', is_migrating
        ):
            host.live_migration.drop_old_notes()
        self.assertEqual({OTHER: ['chosen now']}, host.notes)
