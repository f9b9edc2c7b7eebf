

def blocks(key, message):
    """Blocks, each for itself."""
    return b"".join(encrypt(key, message[at : at + 16]) for at in range(0, len(message), 16))


def ctr(key, counter, message):
    """Counter mode (RFC 3686 section 4): the last four octets count, and wrap without carry."""
    out = b""
    for at in range(0, len(message), 16):
        out += xor(message[at : at + 16], encrypt(key, counter))
        low = (int.from_bytes(counter[12:], "big") + 1) % 2**32
        counter = counter[:12] + low.to_bytes(4, "big")
    return out


def tests(octets):
    """Blocks, counter mode, and counters that wrap."""
    for number in range(120):
        key, message = octets.take(KEY), octets.take(16 * (1 + number % 9))
        yield {"mode": "block", "key": key, "msg": message, "ct": blocks(key, message)}
    for number in range(40):
        key, counter, message = octets.take(KEY), octets.take(16), octets.take(1 + 7 * number)
        if number % 4 == 3:
            counter = counter[:12] + (2**32 - 1 - number % 3).to_bytes(4, "big")
        yield {"mode": "ctr", "key": key, "iv": counter, "msg": message, "ct": ctr(key, counter, message)}
