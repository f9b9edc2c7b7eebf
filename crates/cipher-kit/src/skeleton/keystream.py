

def stream(key, nonce, offset, message):
    """The key stream of a nonce from an octet on: blocks that hold the nonce and the number of the block."""
    first, last = offset // 16, (offset + len(message) + 15) // 16
    octets = b"".join(encrypt(key, nonce + (number % 2**32).to_bytes(4, "little")) for number in range(first, last))
    return xor(message, octets[offset % 16 :])
