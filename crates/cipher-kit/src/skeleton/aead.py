

def make_tag(key, nonce, aad, data):
    """Nonce, both lengths, associated data and ciphertext, chained."""
    first = b"\xff" + nonce + bytes(3) + len(aad).to_bytes(8, "little") + len(data).to_bytes(8, "little")
    tag = bytes(16)
    for row in (first, aad, data):
        for at in range(0, len(row), 16):
            tag = encrypt(key, xor(tag, row[at : at + 16].ljust(16, b"\0")))
    return encrypt(key, bytes([tag[0] ^ 1]) + tag[1:])


def tests(octets):
    """Sealed messages, and some with a bit changed that must not open."""
    for number in range(150):
        key, nonce, aad = octets.take(KEY), octets.take(12), octets.take(number % 21)
        message = octets.take(1 + 5 * (number % 50))
        ct = stream(key, nonce, 0, message)
        test = {"mode": "aead", "key": key, "iv": nonce, "aad": aad, "msg": message, "ct": ct}
        test["tag"] = make_tag(key, nonce, aad, ct)
        yield test
        if number % 3 == 0:
            part = ("tag", "ct", "iv")[number // 3 % 3]
            changed = bytearray(test[part])
            changed[number % len(changed)] ^= 1 << number % 8
            yield {**test, part: bytes(changed), "result": "invalid"}
