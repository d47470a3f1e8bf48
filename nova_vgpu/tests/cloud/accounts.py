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

"""The accounts of the cloud; a password is the name of its user."""

REGION = 'RegionOne'
ADMIN = 'admin'
#: An ordinary user, with the roles member and reader.
USER = 'alice'
#: The accounts of services.
SERVICES = ('glance', 'nova', 'placement')

#: The projects by their names, with ids of our choice.
PROJECTS = {
    'service': '5e51ce00000000000000000000000001',
    'research': '4e5ea4c4000000000000000000000002',
    'studio': '57d10000000000000000000000000003',
}
USER_PROJECT = 'research'
