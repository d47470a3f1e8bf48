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

"""Names that other people gave, and that are shown or asked for."""


def printable(name: str) -> str:
    """The name with everything escaped that a terminal would not print.

    Placement accepts any characters in a provider's name, also those that move
    the cursor or reverse the direction of the text.
    """
    return ''.join(
        char if char.isprintable() else char.encode('unicode_escape').decode()
        for char in name
    )


def is_text(name: str) -> bool:
    """Whether a service can be asked for it.

    Arguments of programs can have bytes that are not UTF-8. Python keeps them
    as characters that cannot be sent.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
