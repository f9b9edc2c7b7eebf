//! A key file for a token: any octets give a file that is written exactly as it was read, or one line that says why not.
#![no_main]

use key_token::{KeyFile, MAX_FILE_LEN, MAX_KEYMAT_LEN, MAX_RECIPIENTS};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| match KeyFile::parse(octets) {
    Ok(file) => {
        assert_eq!(file.octets(), octets);
        assert!(octets.len() <= MAX_FILE_LEN);
        assert!((1..=MAX_KEYMAT_LEN).contains(&file.keymat_len()));
        assert!((1..=MAX_RECIPIENTS).contains(&file.recipients().len()));
        assert!(file.suite().bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-'));
    }
    Err(error) => {
        let text = error.to_string();
        assert!(text.len() < 500 && !text.contains(char::is_control), "{text:?}");
        assert!(!error.remedy().is_empty());
    }
});
