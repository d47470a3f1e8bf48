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

"""Certificates for tests of TLS on loopback, made for each test."""

import dataclasses
import datetime
import ipaddress
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """The files of a certificate and its key."""

    certificate: str
    key: str


@dataclasses.dataclass(frozen=True, slots=True)
class Authority:
    """A CA that issues certificates into a directory."""

    directory: pathlib.Path
    name: str
    _key: ec.EllipticCurvePrivateKey = dataclasses.field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    @property
    def certificate(self) -> str:
        path = self.directory / f'{self.name}.pem'
        if not path.exists():
            _write(path, self._sign(self.name, self._key, is_ca=True))
        return str(path)

    def issue(self, name: str) -> Pair:
        """A certificate for 127.0.0.1, and for clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.directory / f'{self.name}-{name}.pem'
        _write(certificate, self._sign(name, key, is_ca=False))
        key_path = certificate.with_suffix('.key')
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Pair(str(certificate), str(key_path))

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, is_ca: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        address = x509.IPAddress(ipaddress.ip_address('127.0.0.1'))
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
            .add_extension(x509.SubjectAlternativeName([address]), False)
            # Python 3.13 requires the rest.
            .add_extension(_make_usage(is_ca), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(
                    self._key.public_key()
                ),
                critical=False,
            )
        )
        return builder.sign(self._key, hashes.SHA256())


def _make_usage(is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _write(path: pathlib.Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
