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

"""The GPUs and vGPU types of a whole cloud, as Placement and Nova have them.

:mod:`nova_vgpu.cloud.services` sends the requests that read, for ``reader``,
``usage.records`` and ``diagnose.examiner``. ``orders.flavor_store`` and
``orders.image_store`` change flavors in Nova and images in Glance. The other
modules make values of the answers, and decide: ``gpus`` what there is,
``orders`` what flavors ask for, ``usage`` who has what, ``diagnose`` what is
wrong, ``nodes`` what others need to create Kubernetes nodes.
"""
