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

from openstack import exceptions as sdk_exceptions
import testtools

from nova_vgpu import exception
from nova_vgpu.cloud import service_errors


def fail(error: Exception) -> None:
    with service_errors.explain('Nova', 'list servers'):
        raise error


class TestServiceErrors(testtools.TestCase):
    def test_a_permission_that_is_missing_is_named(self) -> None:
        error = self.assertRaises(
            exception.CloudError,
            fail,
            sdk_exceptions.ForbiddenException(
                details="Policy doesn't allow os_compute_api:servers:detail"
            ),
        )
        self.assertEqual(
            "Nova does not permit you to list servers: Policy doesn't allow "
            'os_compute_api:servers:detail',
            str(error),
        )

    def test_a_refusal_without_a_reason_is_told(self) -> None:
        error = self.assertRaises(
            exception.CloudError,
            fail,
            sdk_exceptions.ForbiddenException('no\x1b'),
        )
        self.assertEqual(
            r'Nova does not permit you to list servers: no\x1b', str(error)
        )

    def test_another_error_is_that_of_the_service(self) -> None:
        error = self.assertRaises(
            exception.CloudError, fail, sdk_exceptions.HttpException('down')
        )
        self.assertEqual('Nova did not list servers: down', str(error))
