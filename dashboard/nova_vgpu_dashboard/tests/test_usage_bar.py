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

import unittest

from nova_vgpu_dashboard import tables
from nova_vgpu_dashboard.tests import base


class TestUsageBar(unittest.TestCase):
    def test_parts_are_as_wide_as_their_share(self) -> None:
        for used, reserved, total, widths in (
            (0, 0, 8, ['100', '0', '0']),
            (4, 2, 8, ['100', '50', '25']),
            (1, 2, 3, ['100', '33', '67']),
            (8, 0, 8, ['100', '100', '0']),
            (9, 2, 8, ['100', '100', '0']),
        ):
            parser = base.Parser()
            parser.feed(tables.render_usage(used, reserved, total))
            found = [part['width'] for part in parser.find('rect')]
            self.assertEqual(widths, found, (used, reserved, total))
