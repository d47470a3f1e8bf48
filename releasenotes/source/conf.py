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

"""Configuration of Sphinx for the release notes of nova-vgpu."""

project = 'nova-vgpu Release Notes'
copyright = 'nova-vgpu developers'
author = 'nova-vgpu developers'

# Release notes are not of one version.
version = ''
release = ''

extensions = [
    'openstackdocstheme',
    'reno.sphinxext',
]

root_doc = 'index'
exclude_patterns: list[str] = []
pygments_style = 'native'

# -- HTML --------------------------------------------------------------------

html_theme = 'openstackdocs'
html_theme_options = {
    'display_badge': False,
}

# -- openstackdocstheme ------------------------------------------------------

openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_pdf_link = False
