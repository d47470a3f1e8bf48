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

"""Every page is shown in the documentation."""

import pathlib
import unittest

from nova_vgpu_dashboard.tests.browser import pages

_DOC = pathlib.Path(__file__).parents[3] / 'doc' / 'source'
_LARGEST = 1_500_000


@unittest.skipUnless(_DOC.is_dir(), 'the documentation is not here')
class TestPictures(unittest.TestCase):
    """To make them again, see the page of the guide about testing."""

    def setUp(self) -> None:
        found = (_DOC / 'images' / 'pages').glob('*.png')
        self.sizes = {path.name: path.stat().st_size for path in found}

    def test_every_page_has_its_pictures(self) -> None:
        names = {
            f'{name}-{size}.png'
            for name in (*pages.ALL, *pages.SCENES)
            for size in pages.SIZES
        }
        self.assertEqual(names, set(self.sizes))

    def test_all_are_shown(self) -> None:
        text = (_DOC / 'admin' / 'dashboard-pictures.rst').read_text()
        for name in self.sizes:
            self.assertIn(f'/images/pages/{name}\n', text)

    def test_they_are_small(self) -> None:
        self.assertLess(sum(self.sizes.values()), _LARGEST)
