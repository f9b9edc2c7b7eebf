
/* The members in the order of the header. about.json says the same for the manifest. */
static const struct ravelin_cipher cipher = {
    RAVELIN_CIPHER_ABI_MAJOR,
    RAVELIN_CIPHER_ABI_MINOR,
    sizeof(struct ravelin_cipher),
    @KIND@,
    RAVELIN_CIPHER_CONSTANT_TIME | RAVELIN_CIPHER_IN_PLACE | RAVELIN_CIPHER_OVERLAP_FORBIDDEN,
    "@NAME@",
    "0.1", /* version */
    "nobody yet", /* vendor */
    @BLOCK@, /* block_len */
    KEY,
    @NONCE@, /* nonce_len */
    @TAG@, /* tag_len */
    sizeof(struct context),
    8, /* ctx_align */
    0, /* max_octets_per_key */
    setkey,
    @ENCRYPT@, /* encrypt_blocks */
    @DECRYPT@, /* decrypt_blocks */
    NULL, /* ctr_xor */
    NULL, /* ctr_xor_batch */
    NULL, /* cbc_encrypt_batch */
    @XOR_AT@, /* xor_at */
    @SEAL@, /* seal */
    @OPEN@, /* open */
    NULL, /* seal_batch */
    NULL, /* open_batch */
};

const struct ravelin_cipher *ravelin_cipher_v1(uint32_t index)
{
    return index == 0 ? &cipher : NULL;
}
