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

"""The pages that the walk opens: a page is one line here.

A name is that of the page's pictures. In a path, ``{gpu}`` is the UUID of a
GPU with servers, ``{server}`` that of one of the servers, and ``{fenced}``
that of a GPU that is fenced.
"""

ADMIN = {
    'gpus': '/admin/gpus/',
    'gpus-filtered': '/admin/gpus/?model=A40&sort=-usage',
    'gpus-none': '/admin/gpus/?host=nothing',
    'gpu': '/admin/gpus/{gpu}/',
    'gpu-fenced': '/admin/gpus/{fenced}/',
    'vgpu-types': '/admin/vgpu_types/',
    'create-flavor': '/admin/vgpu_types/create_flavor/',
    'vgpu-usage': '/admin/vgpu_types/usage/',
    'virtual-functions': '/admin/virtual_functions/',
    'virtual-functions-used': '/admin/virtual_functions/?use=server',
    'instance-vgpus': (
        '/admin/instances/{server}/detail?tab=instance_details__vgpus'
    ),
}
#: Pages of projects, which everyone may open.
PROJECT = {
    'vgpu-flavors': '/project/vgpu_flavors/',
}
ALL = ADMIN | PROJECT
#: What is on a page after a while, or before.
SCENES = ('virtual-functions-unknown', 'create-flavor-preview', 'launch-form')
#: The part of a page that is ours, for axe-core.
OURS = '#content_body'
#: Where it is less than the page.
PARTS = {'instance-vgpus': '#instance_details__vgpus'}
#: A desktop and a phone, in pixels.
SIZES = {'wide': (1280, 1000), 'phone': (390, 844)}
#: Horizon's own page that ours are compared with.
HYPERVISORS = '/admin/hypervisors/'
#: For a tab of ours on a page of Horizon's: that page with its own tab. It
#: waits a second for threads of its own, with the futurist library of 2026.
OWN_TABS = {
    'instance-vgpus': (
        '/admin/instances/{server}/detail?tab=instance_details__overview'
    ),
}
