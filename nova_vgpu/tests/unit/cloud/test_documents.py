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

import importlib

import hypothesis
from hypothesis import strategies
import testtools

from nova_vgpu.cloud.nodes import documents

YAML = importlib.import_module('yaml')
# What readers of YAML 1.1 or 1.2 take for something else than a string.
HOSTILE = (
    *('y', 'N', 'yes', 'off', 'null', '~', 'true', '1e3', '0o17', '0x1f'),
    *('012', '1_000', '.5', '+1', '-1', '.nan', '12:30:45', '2026-01-31'),
    *('<<', '=', '', ' ', 'a: b', '- a', '# no', 'a # b', '---', '...', '*a'),
    *('&a', '!!python/object:os.system', '{a: b}', '[a]', '%YAML', '@a', '`'),
    *('a\nkind: Secret', 'a\r\n---\nb', 'a\u2028b', 'a\x85b', "'", '"', '\\'),
    *('{{ x }}', '${x}', '$(x)', 'a\x1b[2J', '\u202eabc', 'ü', '\ufeff', '|'),
)


class TestYAML(testtools.TestCase):
    def load(self, text: str) -> list[object]:
        return list(YAML.safe_load_all(text))

    def test_hostile_strings_stay_strings(self) -> None:
        for text in HOSTILE:
            data = {'name': text, text: ['x', text], 'last': {'kind': 'Job'}}
            dumped = documents.dump([text], [data])
            self.assertEqual([data], self.load(dumped), repr(text))
            self.assertTrue(documents.dump((), [data]).isascii(), text)

    @hypothesis.given(strategies.text())
    def test_any_string_stays_one(self, text: str) -> None:
        dumped = documents.dump([text], [{'name': text}, {text: 1}])
        self.assertEqual([{'name': text}, {text: 1}], self.load(dumped))

    def test_numbers_of_other_versions_are_quoted(self) -> None:
        for text in ('1e3', '0o17', 'y', 'n', '.5', '1.34'):
            self.assertIn(f"'{text}'", documents.dump((), [{'a': text}]))

    def test_what_is_there_twice_is_repeated(self) -> None:
        same = {'a': 'b'}
        dumped = documents.dump((), [{'one': same, 'two': same}])
        self.assertEqual('---\none:\n  a: b\ntwo:\n  a: b\n', dumped)

    def test_numbers_and_booleans_are_not_strings(self) -> None:
        self.assertEqual(
            '# a\n---\nb: true\na: 1\n',
            documents.dump(['a'], [{'b': True, 'a': 1}]),
        )
