//! CRC-64 with the polynomial of ECMA-182, reflected (the variant that xz uses).

const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        let mut crc = octet as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[octet] = crc;
        octet += 1;
    }
    table
};

/// The CRC of some octets.
pub fn crc64(octets: &[u8]) -> u64 {
    !octets.iter().fold(!0, |crc: u64, octet| TABLE[usize::from(crc as u8 ^ octet)] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_published_check_value() {
        assert_eq!(super::crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
    }
}
