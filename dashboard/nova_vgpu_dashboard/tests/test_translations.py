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

"""Every text of the pages can be translated.

The pages are opened in a language that puts brackets around each text. What
is outside of brackets was not translated: it may only be what the services
tell.
"""

import gettext
import re
import typing
from unittest import mock

from django.utils.translation import trans_real

from nova_vgpu_dashboard.tests import base
from nova_vgpu_dashboard.tests import clouds

_WORD = re.compile(r'[^\W\d_]{3,}')
_INNERMOST = re.compile(r'⟦[^⟦⟧]*⟧')
_CONTEXT = '\x04'


class Brackets(gettext.NullTranslations):
    """A language for this test."""

    def gettext(self, message: str) -> str:
        return f'⟦{message.rpartition(_CONTEXT)[2]}⟧'

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)

    def language(self) -> str:
        return 'en'

    to_language = language


class Parser(base.Parser):
    """Without what is for machines: extra specs, traits, nova.conf."""

    _for_machines = 0

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        super().handle_starttag(tag, attrs)
        self._for_machines += tag in ('pre', 'code')

    def handle_endtag(self, tag: str) -> None:
        self._for_machines -= tag in ('pre', 'code')

    def handle_data(self, data: str) -> None:
        if not self._for_machines:
            super().handle_data(data)


class TestTranslations(base.AdminPages):
    def setUp(self) -> None:
        super().setUp()
        self.cloud.gpus = (
            clouds.gpu('compute1', used=2),
            clouds.gpu('compute2', capacity=6, reserved=6),
            clouds.whole('compute3'),
        )
        self.cloud.flavors = (clouds.flavor('small', resources__VGPU='1'),)

    def list_words(
        self, name: str, args: typing.Sequence[str] = ()
    ) -> set[str]:
        """What is not translated on a page."""
        language = Brackets()
        parser = Parser()
        with mock.patch.object(
            trans_real, 'translation', lambda _name: language
        ):
            parser.feed(self.open(name, args=args).content.decode())
        text = parser.text
        self.assertIn('⟦', text)
        while (shorter := _INNERMOST.sub(' ', text)) != text:
            text = shorter
        return set(_WORD.findall(text))

    def test_only_what_services_tell_is_not_translated(self) -> None:
        told = {'small'}
        for gpu in self.cloud.gpus:
            names = [stock.resource_class for stock in gpu.stocks]
            names += [gpu.name, gpu.uuid, *gpu.traits]
            told.update(_WORD.findall(' '.join(names)))
        for name, args in (
            (base.GPUS, ()),
            *((base.GPU, [gpu.uuid]) for gpu in self.cloud.gpus),
            (base.TYPES, ()),
            (base.CREATE, ()),
            (base.FLAVORS, ()),
        ):
            self.assertEqual(set(), self.list_words(name, args) - told, name)
