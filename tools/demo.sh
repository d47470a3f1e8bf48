#!/usr/bin/env bash
#
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

# Install the demonstration of nova-vgpu into .venv of this checkout and run
# it: tools/demo.sh [ARGUMENT...]. The arguments go to "nova-vgpu demo".

set -euo pipefail
# shellcheck source=tools/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

find_python
system_packages demo
version_without_git
virtualenv .venv -e '.[demo]'
step_done

exec "$ROOT/.venv/bin/nova-vgpu" demo "$@"
