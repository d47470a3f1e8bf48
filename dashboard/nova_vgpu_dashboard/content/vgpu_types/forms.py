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

"""The form that creates a flavor with vGPUs.

:mod:`nova_vgpu.cloud.orders.flavor_creation` checks everything and makes the
extra specs, for this form as for the command ``openstack vgpu flavor create``.
The preview is what the command shows with ``--dry-run``.
"""

import typing

from django import http
from django.core import exceptions
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from horizon import forms
from horizon import messages

from nova_vgpu import exception
from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.gpus import fleet
from nova_vgpu.cloud.gpus import types
from nova_vgpu.cloud.orders import flavor_change
from nova_vgpu.cloud.orders import flavor_creation
from nova_vgpu.cloud.orders import flavor_order
from nova_vgpu.cloud.orders import flavor_store
from nova_vgpu.cloud.orders import flavors
from nova_vgpu.cloud.orders import whole_gpu_listing
from nova_vgpu_dashboard import connection
from nova_vgpu_dashboard.content.vgpu_types import tables

_POLICIES = {
    flavor_order.Policy.SAME_GPU: _('All of one GPU'),
    flavor_order.Policy.DIFFERENT_GPUS: _('Each of another GPU'),
    flavor_order.Policy.ANY: _('Of any GPUs of the host'),
}
_COUNT = _('vGPUs or GPUs per server')
_POLICY = _('GPUs of several vGPUs')
_TYPE = _('vGPU type or whole GPU')
_PAGE_SIZE = _('Size of memory pages')
#: The fields in place of the options that messages name, with their labels.
#: None of the options is the beginning of another.
_FIELDS = {
    '--count': ('count', _COUNT),
    '--policy': ('policy', _POLICY),
    '--resource-class': ('type', _TYPE),
    '--type': ('type', _TYPE),
    '--passthrough': ('type', _TYPE),
    '--page-size': ('page_size', _PAGE_SIZE),
}
#: In the URL of the button that creates. Not its name: Horizon's scripts
#: disable the buttons of a form that is sent, and then it has no name.
CREATE = 'create'
#: More would not fit Nova's columns.
_LARGEST = 2**31 - 1


class _NumberField(forms.IntegerField):
    """A number with the arrows of the browser.

    Horizon has buttons instead, which have no names for screen readers.
    """

    widget = forms.TextInput(attrs={'type': 'number'})

    def widget_attrs(self, _widget: forms.Widget) -> dict[str, typing.Any]:
        return {'min': self.min_value, 'max': self.max_value}


class CreateFlavorForm(forms.SelfHandlingForm):
    """A flavor for vGPUs of a type, or for whole GPUs of a model."""

    name = forms.CharField(max_length=255, label=_('Name'))
    type = forms.ThemableChoiceField(label=_TYPE)
    count = _NumberField(
        label=_COUNT, min_value=1, max_value=_LARGEST, initial=1
    )
    policy = forms.ThemableChoiceField(
        label=_POLICY,
        required=False,
        choices=[
            ('', _('Not set: all of one GPU')),
            *((policy.value, text) for policy, text in _POLICIES.items()),
        ],
        help_text=_('For vGPUs only: leave it out for whole GPUs.'),
    )
    vcpus = _NumberField(label=_('vCPUs'), min_value=1, max_value=_LARGEST)
    ram = _NumberField(label=_('RAM (MiB)'), min_value=1, max_value=_LARGEST)
    disk = _NumberField(
        label=_('Root disk (GiB)'), min_value=0, max_value=_LARGEST
    )
    ephemeral = _NumberField(
        label=_('Ephemeral disk (GiB)'),
        min_value=0,
        max_value=_LARGEST,
        initial=0,
    )
    swap = _NumberField(
        label=_('Swap (MiB)'), min_value=0, max_value=_LARGEST, initial=0
    )
    page_size = forms.CharField(
        label=_PAGE_SIZE,
        required=False,
        max_length=20,
        help_text=_(
            'large, small, any, or for example 1GB. The memory is locked, '
            'too. Needs the NUMATopologyFilter in the scheduler.'
        ),
    )
    is_public = forms.BooleanField(
        label=_('Public'),
        required=False,
        initial=True,
        help_text=_(
            'Without it, only administrators see the flavor, and projects '
            'that get access to it in Admin, Compute, Flavors.'
        ),
    )

    preview: flavor_creation.Outcome | None = None
    failure: str | None = None

    def __init__(
        self,
        request: http.HttpRequest,
        *args: typing.Any,
        **kwargs: typing.Any,
    ) -> None:
        super().__init__(request, *args, **kwargs)
        self.offers: dict[str, types.TypeUsage] = {}
        try:
            self.cloud = connection.connect(request)
            self.offers = list_offers(self.cloud.list_every_gpu())
        except exception.NovaVGPUError as error:
            self.failure = str(error)
        self.fields['type'].choices = self.list_choices()

    def list_choices(self) -> list[tuple[str, typing.Any]]:
        """What can be asked for; if that is unknown, what was asked for."""
        if self.failure is not None and self.is_bound:
            asked = self.data.get('type', '')
            return [(asked, asked)]
        return [(key, describe(offer)) for key, offer in self.offers.items()]

    def clean(self) -> dict[str, typing.Any]:
        if self.failure is not None:
            raise exceptions.ValidationError(self.failure)
        cleaned: dict[str, typing.Any] = super().clean()
        return cleaned

    def handle(
        self, request: http.HttpRequest, data: dict[str, typing.Any]
    ) -> bool:
        """Whether the flavor is there; it is not after a preview."""
        is_preview = CREATE not in request.GET
        try:
            outcome = flavor_creation.ensure_flavor(
                self.cloud,
                flavor_store.FlavorStore(self.cloud.connection),
                self.make_request(data),
                is_dry_run=is_preview,
            )
        except exception.NovaVGPUError as error:
            for field, text in place_message(error):
                self.add_error(field, text)
            return False
        if is_preview:
            self.preview = outcome
            return False
        say(request, outcome)
        return True

    @property
    def warnings_of_preview(self) -> list[str]:
        found = self.preview.warnings if self.preview else ()
        return [name_fields(warning) for warning in found]

    def make_request(
        self, data: dict[str, typing.Any]
    ) -> flavor_creation.FlavorRequest:
        offer = self.offers[data['type']]
        is_whole = not offer.facts.types
        policy = data['policy']
        return flavor_creation.FlavorRequest(
            data['name'],
            None if is_whole else offer.facts.types[0],
            flavors.Size(
                data['vcpus'],
                data['ram'],
                data['disk'],
                data['ephemeral'],
                data['swap'],
            ),
            data['count'],
            flavor_order.Policy(policy) if policy else None,
            None if is_whole else offer.resource_class,
            data['page_size'] or None,
            data['is_public'],
            offer.facts.model if is_whole else None,
        )


def list_offers(
    gpus: typing.Sequence[fleet.GPU],
) -> dict[str, types.TypeUsage]:
    """The types and models of whole GPUs that a flavor can ask for."""
    examined = examination.of_gpus(gpus, ())
    served = types.list_types(examined.gpus)
    return {
        tables.identify(usage): usage
        for usage in (
            *(usage for usage in served if len(usage.facts.types) == 1),
            *whole_gpu_listing.list_models(examined.whole),
        )
    }


def describe(usage: types.TypeUsage) -> typing.Any:
    is_whole = not usage.facts.types
    return format_lazy(
        '{name} ({resource_class}): {room}',
        name=format_lazy(_('Whole {model}'), model=usage.facts.model)
        if is_whole
        else usage.name,
        resource_class=usage.resource_class,
        room=_('%(free)d of %(total)d free')
        % {'free': usage.free, 'total': usage.total},
    )


def name_fields(message: str) -> str:
    """A message of the library, with fields for options of the command."""
    for option, (_field, label) in _FIELDS.items():
        message = message.replace(option, f'"{label}"')
    return message


def place_message(
    error: exception.NovaVGPUError,
) -> list[tuple[str | None, str]]:
    """Each line of a refusal, with the field that it is shown next to.

    That is the first one that it names. None is the whole form.
    """
    is_about_name = isinstance(error, exception.FlavorConflict)
    found: list[tuple[str | None, str]] = []
    for line in str(error).splitlines():
        named = min(
            (option for option in _FIELDS if option in line),
            key=line.index,
            default=None,
        )
        field = _FIELDS[named][0] if named else None
        if is_about_name or line.startswith('The name '):
            field = 'name'
        found.append((field, name_fields(line)))
    return found


def say(request: http.HttpRequest, outcome: flavor_creation.Outcome) -> None:
    texts = {
        flavor_change.Result.CREATED: gettext('Flavor %s was created.'),
        flavor_change.Result.UPDATED: gettext('Flavor %s was changed.'),
        flavor_change.Result.UNCHANGED: gettext(
            'Flavor %s exists as requested; nothing was changed.'
        ),
    }
    messages.success(
        request, texts[outcome.change.result] % outcome.flavor.name
    )
    for warning in outcome.warnings:
        messages.warning(request, name_fields(warning))
