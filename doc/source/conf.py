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

"""Configuration of Sphinx for the documentation of nova-vgpu."""

import logging
import pathlib
import sys

# The directives of this documentation.
sys.path.insert(0, str(pathlib.Path(__file__).parent / '_ext'))

project = 'nova-vgpu'
copyright = 'nova-vgpu developers'
author = 'nova-vgpu developers'

# Options and quotes are there to be copied.
smartquotes = False

extensions = [
    'code_sources',
    'command_output',
    'command_pages',
    'flavor_examples',
    'flow_diagram',
    'live_session',
    'openstackdocstheme',
    'oslo_config.sphinxconfiggen',
    'oslo_config.sphinxext',
    'trait_tables',
]

needs_sphinx = '8.1'
root_doc = 'index'
exclude_patterns: list[str] = []
add_function_parentheses = True
pygments_style = 'native'

# -- HTML --------------------------------------------------------------------

html_theme = 'openstackdocs'
html_theme_options = {
    'display_badge': False,
    'sidebar_mode': 'toc',
}

# -- Manual page -------------------------------------------------------------

man_pages = [
    (
        'cli/nova-vgpu',
        'nova-vgpu',
        'which vGPU type each physical GPU serves',
        [author],
        1,
    ),
]

# -- openstackdocstheme ------------------------------------------------------

openstackdocs_auto_name = False
# The release is that of the checkout, as pbr derives it from git.
openstackdocs_auto_version = True
openstackdocs_pdf_link = False
# For links to other documentation, always with a text of their own:
# :nova-doc:`Attaching virtual GPU devices <admin/virtual-gpu.html>`.
openstackdocs_projects = ['nova', 'placement']

# -- oslo.config -------------------------------------------------------------

# It warns of Nova's names, which examples have on purpose, and of the dynamic
# group, whose name it writes in lower case.
logging.getLogger('oslo_config').setLevel(logging.ERROR)

config_generator_config_file = '../../etc/nova-vgpu-config-generator.conf'
sample_config_basename = '_static/nova-vgpu'

# -- cliff -------------------------------------------------------------------

autoprogram_cliff_application = 'nova-vgpu'
autoprogram_cliff_app_dist_name = 'nova-vgpu'
# What every command has; "Output formats" on the same page describes them.
autoprogram_cliff_ignored = [
    '--help',
    '--format',
    '--column',
    '--quote',
    '--noindent',
    '--max-width',
    '--fit-width',
    '--print-empty',
    '--prefix',
    '--sort-column',
    '--sort-ascending',
    '--sort-descending',
]
