

def tests(octets):
    """Messages of many lengths, from the first octet of the key stream on and from others."""
    for number in range(150):
        key, nonce, message = octets.take(KEY), octets.take(12), octets.take(1 + 5 * (number % 50))
        offset = 0 if number < 50 else number * 37 % 1000
        ct = stream(key, nonce, offset, message)
        yield {"mode": "stream", "key": key, "iv": nonce, "offset": offset, "msg": message, "ct": ct}
