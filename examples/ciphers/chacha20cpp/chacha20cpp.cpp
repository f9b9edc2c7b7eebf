// SPDX-License-Identifier: MIT OR Apache-2.0
//
// ChaCha20 (RFC 8439 section 2.3) as a stream cipher of one's own, in C++17 without exceptions and without the C++
// library. It has additions, rotations and XORs alone: its time does not depend on keys or data.
//
// The nonce has 12 octets. Octet `offset` of the key stream is octet offset % 64 of block offset / 64, and the first
// block has the counter 0. The counter of RFC 8439 has 32 bits, so that a nonce has 2^32 blocks of key stream, which
// are 2^38 octets. Behind them the counter starts again at 0 and the key stream repeats, as the RFC's own arithmetic
// does: a carry into the nonce would give the key stream of another packet. An ESP packet is shorter than 2^16 octets.
#include "../../../include/ravelin_cipher.h"

namespace {

constexpr size_t KEY = 32;
constexpr size_t NONCE = 12;
constexpr size_t BLOCK = 64;

struct Context {
    uint32_t key[8];
};

uint32_t load32(const uint8_t *from)
{
    return uint32_t(from[0]) | uint32_t(from[1]) << 8 | uint32_t(from[2]) << 16 | uint32_t(from[3]) << 24;
}

uint32_t rotate(uint32_t x, unsigned by)
{
    return x << by | x >> (32 - by);
}

// RFC 8439 section 2.1.
inline void quarter_round(uint32_t &a, uint32_t &b, uint32_t &c, uint32_t &d)
{
    a += b;
    d = rotate(d ^ a, 16);
    c += d;
    b = rotate(b ^ c, 12);
    a += b;
    d = rotate(d ^ a, 8);
    c += d;
    b = rotate(b ^ c, 7);
}

// RFC 8439 section 2.3: one block of key stream.
void block(const uint32_t state[16], uint8_t out[BLOCK])
{
    uint32_t x[16];
    for (int i = 0; i < 16; i++)
        x[i] = state[i];
    for (int round = 0; round < 20; round += 2) {
        for (int i = 0; i < 4; i++)
            quarter_round(x[i], x[4 + i], x[8 + i], x[12 + i]);
        for (int i = 0; i < 4; i++)
            quarter_round(x[i], x[4 + (i + 1) % 4], x[8 + (i + 2) % 4], x[12 + (i + 3) % 4]);
    }
    for (int i = 0; i < 16; i++) {
        const uint32_t sum = x[i] + state[i];
        for (int j = 0; j < 4; j++)
            out[4 * i + j] = uint8_t(sum >> (8 * j));
    }
}

int32_t setkey(void *ctx, const uint8_t *key, size_t key_len)
{
    if (key_len != KEY)
        return RAVELIN_CIPHER_BAD_LENGTH;
    auto *context = static_cast<Context *>(ctx);
    for (int i = 0; i < 8; i++)
        context->key[i] = load32(key + 4 * i);
    return RAVELIN_CIPHER_OK;
}

void xor_at(const void *ctx, const uint8_t *nonce, uint64_t offset, uint8_t *dst, const uint8_t *src, size_t len)
{
    const auto *context = static_cast<const Context *>(ctx);
    uint32_t state[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    for (int i = 0; i < 8; i++)
        state[4 + i] = context->key[i];
    state[12] = uint32_t(offset / BLOCK);
    for (int i = 0; i < 3; i++)
        state[13 + i] = load32(nonce + 4 * i);
    uint8_t stream[BLOCK];
    size_t at = size_t(offset % BLOCK);
    while (len > 0) {
        block(state, stream);
        state[12]++;
        const size_t now = BLOCK - at < len ? BLOCK - at : len;
        for (size_t i = 0; i < now; i++)
            dst[i] = src[i] ^ stream[at + i];
        dst += now;
        src += now;
        len -= now;
        at = 0;
    }
    for (volatile uint8_t &octet : stream)
        octet = 0;
    for (volatile uint32_t &word : state)
        word = 0;
}

// C++17 has no designated initialisers; the members keep the order of the header.
constexpr ravelin_cipher cipher = {
    RAVELIN_CIPHER_ABI_MAJOR,
    RAVELIN_CIPHER_ABI_MINOR,
    sizeof(ravelin_cipher),
    RAVELIN_CIPHER_STREAM,
    RAVELIN_CIPHER_CONSTANT_TIME | RAVELIN_CIPHER_IN_PLACE | RAVELIN_CIPHER_OVERLAP_FORBIDDEN,
    "chacha20cpp",
    "1.0",
    "Ravelin examples",
    0, // block_len
    KEY,
    NONCE,
    0, // tag_len
    sizeof(Context),
    alignof(Context),
    uint64_t(0), // max_octets_per_key
    setkey,
    nullptr, // encrypt_blocks
    nullptr, // decrypt_blocks
    nullptr, // ctr_xor
    nullptr, // ctr_xor_batch
    nullptr, // cbc_encrypt_batch
    xor_at,
    nullptr, // seal
    nullptr, // open
    nullptr, // seal_batch
    nullptr, // open_batch
};

} // namespace

const ravelin_cipher *ravelin_cipher_v1(uint32_t index)
{
    return index == 0 ? &cipher : nullptr;
}
