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

# Run every check of nova-vgpu, or those named, with tox:
# tools/test.sh [ENVIRONMENT...]. All are run, also if one fails.

set -euo pipefail
# shellcheck source=tools/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

environments=("$@")
if ((${#environments[@]} == 0)); then
    environments=(pep8 ansible py3 functional nova31 dashboard26)
    if grep -qx ID=debian /etc/os-release; then
        environments+=(browser)
    else
        echo "The browser is left out: its packages are those of Debian."
    fi
    environments+=(docs releasenotes genconfig)
    if ((EUID == 0)) && grep -qx ID=debian /etc/os-release; then
        environments+=(cloud-init lab lab-unit)
    else
        echo "The lab and cloud-init are left out: root runs them, on Debian."
    fi
fi

find_python
system_packages test
if [[ " ${environments[*]} " == *" lab"* ||
    " ${environments[*]} " == *" cloud-init "* ]]; then
    system_packages lab
fi
if [[ " ${environments[*]} " == *" browser "* ]]; then
    system_packages browser
fi
if [[ " ${environments[*]} " == *" bench "* ]]; then
    system_packages bench
fi
# reno and the theme of the documentation read the history.
has_commit ||
    die "$ROOT is not a git checkout with a commit that $(id -un) may read."
virtualenv .venv-tox tox tox-uv

# uv installs in seconds what takes pip minutes. It does not read the settings
# of pip: where these name another index, or uv does not reach its own, tox
# uses pip.
runner=virtualenv installer=pip
if ! "$ROOT/.venv-tox/bin/pip" config list | grep '\.index-url=' >/dev/null &&
    "$ROOT/.venv-tox/bin/uv" --quiet pip install --dry-run --no-deps \
        --python "$ROOT/.venv-tox/bin/python" \
        -c "$ROOT/constraints.txt" os-traits 2>/dev/null; then
    runner=uv-venv-runner installer=uv
fi
echo "    tox installs with $installer"

# The tests write many small files, which takes half of the time in memory:
# where there is plenty of it, and where programs can be run from it.
disk=${TMPDIR:-/tmp} tests_in=${TMPDIR:-/tmp}
memory=$(mktemp -d /dev/shm/nova-vgpu.XXXXXX 2>/dev/null) || memory=
if [[ -n $memory ]]; then
    trap 'rm -rf "$memory"' EXIT
    # As /tmp is: some tests have another user.
    chmod 1777 "$memory"
    free=$(df --output=avail --block-size=1G "$memory" | tail -n 1)
    if ((free >= 4)) && cp "$(type -P true)" "$memory/runs" &&
        "$memory/runs" 2>/dev/null; then
        tests_in=$memory
    fi
fi

passed=() failed=() environment=
interrupted() {
    trap - INT TERM
    echo
    echo "==> interrupted in $environment after $SECONDS s:" \
        "${#passed[@]} passed (${passed[*]}), ${#failed[@]} failed (${failed[*]})"
    exit 130
}
trap interrupted INT TERM
for environment in "${environments[@]}"; do
    count=$((${#passed[@]} + ${#failed[@]} + 1))
    step "$environment ($count of ${#environments[@]})"
    temporary=$tests_in
    if [[ $environment == lab* || $environment == cloud-init ]]; then
        # It has the disks of virtual machines, or systems below an overlay.
        temporary=$disk
    fi
    if TMPDIR=$temporary "$ROOT/.venv-tox/bin/tox" run -c "$ROOT/tox.ini" \
        --runner "$runner" -e "$environment"; then
        passed+=("$environment")
    else
        failed+=("$environment")
    fi
done
step_done

summary="${#passed[@]} passed, ${#failed[@]} failed in $SECONDS s"
if ((${#failed[@]} > 0)); then
    echo "==> $summary: ${failed[*]}"
    exit 1
fi
echo "==> $summary"
