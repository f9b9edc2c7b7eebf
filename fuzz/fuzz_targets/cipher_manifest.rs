//! The manifest of a cipher of one's own: any octets give a manifest that can be used, or one line that says why not.
#![no_main]

use cipher_manifest::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| match Manifest::parse(octets) {
    Ok(manifest) => {
        assert!(manifest.description.check().is_ok());
        assert!((1024..=65532).contains(&manifest.transform_id));
        for file in [&manifest.library.file, &manifest.vectors.file] {
            assert!(!file.is_empty() && !file.contains(['/', '\0']) && !file.contains(".."));
        }
    }
    Err(error) => {
        let text = error.to_string();
        assert!(text.len() < 2000 && !text.contains(char::is_control), "{text:?}");
        assert!(!error.remedy().is_empty());
    }
});
