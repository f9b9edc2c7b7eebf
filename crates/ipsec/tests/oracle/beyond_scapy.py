"""What scapy has no word for, so that whole packets of every suite are framed by it: Camellia-CBC, AES-XCBC-MAC-96, and AES-GMAC
in AH. The primitives are those of `cryptography` (OpenSSL); what RFC 3566 and RFC 4543 make of them is read here from their text."""

import struct

from cryptography.hazmat.decrepit.ciphers.algorithms import Camellia
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from scapy.layers.ipsec import AH, AUTH_ALGOS, CRYPT_ALGOS, AuthAlgo, CryptAlgo, zero_mutable_fields


class Xcbc:
    """RFC 3566 section 4."""

    def __init__(self, key):
        self.key, self.message = key, b""

    def update(self, octets):
        self.message += octets

    def finalize(self):
        def ecb(key, block):
            return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)

        def xor(a, b):
            return bytes(x ^ y for x, y in zip(a, b))

        k1, k2, k3 = (ecb(self.key, bytes([number]) * 16) for number in (1, 2, 3))
        blocks = [self.message[at : at + 16] for at in range(0, len(self.message), 16)] or [b""]
        *front, last = blocks
        state = bytes(16)
        for block in front:
            state = ecb(k1, xor(state, block))
        last = xor(last, k2) if len(last) == 16 else xor((last + b"\x80").ljust(16, b"\0"), k3)
        return ecb(k1, xor(state, last))


class XcbcAlgo(AuthAlgo):
    """Signs as every other algorithm of scapy's."""

    def new_mac(self, key):
        return Xcbc(key)


class GmacInAh(AuthAlgo):
    """RFC 4543 sections 4 and 7: the field holds IV and tag; the IV is part of the associated data, where it stands in the packet."""

    iv = None

    def sign(self, pkt, key, esn_en=False, esn=0):
        pkt[AH].icv = self.iv + bytes(16)
        covered = zero_mutable_fields(pkt.copy(), sending=True)
        covered[AH].icv = self.iv + bytes(16)
        associated = bytes(covered) + (struct.pack("!L", esn) if esn_en else b"")
        pkt[AH].icv = self.iv + AESGCM(key[:-4]).encrypt(key[-4:] + self.iv, b"", associated)
        return pkt


def register():
    CRYPT_ALGOS["CAMELLIA-CBC"] = CryptAlgo("CAMELLIA-CBC", cipher=Camellia, mode=modes.CBC)
    AUTH_ALGOS["AES-XCBC-96"] = XcbcAlgo("AES-XCBC-96", mac=Xcbc, digestmod=None, icv_size=12, key_size=(16,))
    gmac = GmacInAh("AES-GMAC", mac=AESGCM, digestmod=None, icv_size=24)
    AUTH_ALGOS["AES-GMAC"] = gmac
    return gmac
