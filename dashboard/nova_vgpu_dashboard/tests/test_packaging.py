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

import ast
import pathlib
import unittest

_PACKAGE = pathlib.Path(__file__).parents[1]
_SETUP = _PACKAGE.parent / 'setup.py'


@unittest.skipUnless(_SETUP.is_file(), 'this is not a checkout')
class TestPackaging(unittest.TestCase):
    def test_every_file_of_the_pages_is_installed(self) -> None:
        (patterns,) = (
            ast.literal_eval(node.value)[_PACKAGE.name]
            for node in ast.walk(ast.parse(_SETUP.read_text()))
            if isinstance(node, ast.keyword) and node.arg == 'package_data'
        )
        installed = {
            path for pattern in patterns for path in _PACKAGE.glob(pattern)
        }
        needed = {
            path
            for path in _PACKAGE.rglob('*')
            if path.is_file() and path.suffix not in ('.py', '.pyc')
        }
        self.assertEqual(needed, installed)
