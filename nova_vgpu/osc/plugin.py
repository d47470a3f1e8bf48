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

"""What python-openstackclient asks of a plugin.

It reads the names in capitals and calls the functions.
"""

import argparse
import typing

from nova_vgpu.cloud import reader

API_NAME = 'vgpu'
API_VERSION_OPTION = 'os_vgpu_api_version'
API_VERSIONS = {'1': 'nova_vgpu.cloud.reader.Cloud'}
DEFAULT_API_VERSION = '1'


def make_client(manager: typing.Any) -> reader.Cloud:
    """The cloud of the account that is logged in."""
    return reader.Cloud(manager.sdk_connection)


def build_option_parser(
    parser: argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    """No options for all commands."""
    return parser
