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

"""Nova's test services without work that no test looks at.

With native threads each database is a file, which oslo.db opens and closes
again for each transaction; and Nova's tests put every debug message into
words. Here files stay open, are not synchronised to the disk, and Nova and
Placement make no debug messages.
"""

import logging
import typing

import fixtures
from nova import conf
import sqlalchemy.pool

_TALKATIVE = ('nova', 'placement', 'oslo_concurrency', 'oslo_policy')


class QuickNova(fixtures.Fixture):
    """To be used before Nova's own set-up, which opens the databases."""

    def _setUp(self) -> None:
        for database in ('database', 'api_database'):
            conf.CONF.set_override('sqlite_synchronous', False, database)
            self.addCleanup(
                conf.CONF.clear_override, 'sqlite_synchronous', database
            )
        self.useFixture(
            fixtures.MockPatchObject(sqlalchemy.pool, 'NullPool', OpenFiles)
        )
        for name in _TALKATIVE:
            logger = logging.getLogger(name)
            self.addCleanup(logger.setLevel, logger.level)
            logger.setLevel(logging.INFO)


class OpenFiles(sqlalchemy.pool.QueuePool):
    """As many open databases as are needed, kept open."""

    def __init__(self, creator: typing.Any, **options: typing.Any) -> None:
        super().__init__(
            creator, **{**options, 'pool_size': 0, 'pre_ping': False}
        )
