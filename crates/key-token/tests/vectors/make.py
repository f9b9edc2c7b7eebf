#!/usr/bin/env python3
"""Make a key file from docs/design/0039 alone, with pyca/cryptography: `make.py FOLDER` writes a file that is sealed to four
keys, the private keys, and the keying material. Nothing here was taken from the Rust code, and nothing is random but what
OpenSSL draws for RSA."""

import hashlib
import pathlib
import struct
import sys

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

FOLDER = pathlib.Path(sys.argv[1])
FILE_ID = bytes(range(0x30, 0x40))
CONTENT_KEY = bytes(range(0xA0, 0xC0))
KEYMAT = bytes(range(20))
SUITE = b"aes128gcm"


def spki(key):
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def hkdf(secret, info):
    return HKDF(hashes.SHA256(), 32, FILE_ID, info).derive(secret)


def recipient(method, public, sealed):
    return struct.pack(">B32sH", method, hashlib.sha256(spki(public)).digest(), len(sealed)) + sealed


def oaep(method, private, hash_function):
    scheme = padding.OAEP(padding.MGF1(hash_function), hash_function, None)
    return recipient(method, private.public_key(), private.public_key().encrypt(CONTENT_KEY, scheme))


def ecdh(method, private, ephemeral):
    public = private.public_key()
    shared = ephemeral.exchange(ec.ECDH(), public)
    point = ephemeral.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    key_id = hashlib.sha256(spki(public)).digest()
    info = b"ravelin key file v1 recipient" + bytes([method]) + key_id + point
    return recipient(method, public, point + AESGCM(hkdf(shared, info)).encrypt(bytes(12), CONTENT_KEY, b""))


keys = {
    "rsa256.pem": rsa.generate_private_key(65537, 2048),
    "rsa1.pem": rsa.generate_private_key(65537, 3072),
    "p256.pem": ec.derive_private_key(0x1234567890ABCDEF1234567890ABCDEF, ec.SECP256R1()),
    "p384.pem": ec.derive_private_key(0xFEDCBA09876543210FEDCBA0987654321, ec.SECP384R1()),
}
recipients = [
    oaep(1, keys["rsa256.pem"], hashes.SHA256()),
    oaep(2, keys["rsa1.pem"], hashes.SHA1()),
    ecdh(3, keys["p256.pem"], ec.derive_private_key(0x55, ec.SECP256R1())),
    ecdh(4, keys["p384.pem"], ec.derive_private_key(0x66, ec.SECP384R1())),
]
header = b"rvlkeyfl" + b"\x01" + FILE_ID + bytes([len(SUITE)]) + SUITE
header += struct.pack(">HB", len(KEYMAT), len(recipients)) + b"".join(recipients)
sealed = AESGCM(hkdf(CONTENT_KEY, b"ravelin key file v1 content")).encrypt(bytes(12), KEYMAT, header)

for name, key in keys.items():
    (FOLDER / name).write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    (FOLDER / name.replace(".pem", ".pub")).write_bytes(key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
(FOLDER / "sealed.key").write_bytes(header + sealed)
