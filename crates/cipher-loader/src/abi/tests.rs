//! The layout, compared with what the C compiler makes of the header, in C11 and in C++17.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::*;

/// Type, field, offset in Rust. A field without a name is the size.
fn layout() -> Vec<(&'static str, &'static str, usize)> {
    macro_rules! fields {
        ($type:ident, $c:literal, $($field:ident)*) => {
            vec![($c, "", size_of::<$type>()), $(($c, stringify!($field), offset_of!($type, $field))),*]
        };
    }
    let mut all = fields!(Raw, "ravelin_cipher", abi_major abi_minor struct_size kind flags name version vendor
        block_len key_len nonce_len tag_len ctx_size ctx_align max_octets_per_key setkey encrypt_blocks decrypt_blocks
        ctr_xor ctr_xor_batch cbc_encrypt_batch xor_at seal open seal_batch open_batch);
    all.extend(fields!(RawCtr, "ravelin_cipher_ctr", counter data len));
    all.extend(fields!(RawCbc, "ravelin_cipher_cbc", iv data len));
    all.extend(fields!(RawAead, "ravelin_cipher_aead", nonce aad aad_len data len tag result reserved));
    all
}

#[test]
fn the_c_compiler_lays_everything_out_alike() {
    // The records of packets are handed over in arrays: their sizes are those of the major number.
    assert_eq!((size_of::<RawCtr>(), size_of::<RawCbc>(), size_of::<RawAead>()), (32, 32, 56));
    let folder = std::env::temp_dir().join(format!("ravelin-abi-{}", std::process::id()));
    // Nobody else's folder: what is built there is run.
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&folder).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut program = "#include <stdio.h>\n#include <ravelin_cipher.h>\nint main(void) {\n".to_owned();
    let mut expected = String::new();
    for (kind, field, at) in layout() {
        if field.is_empty() {
            writeln!(program, "printf(\"{kind} %zu\\n\", sizeof(struct {kind}));").unwrap();
            writeln!(expected, "{kind} {at}").unwrap();
        } else {
            writeln!(program, "printf(\"{kind}.{field} %zu\\n\", offsetof(struct {kind}, {field}));")
                .unwrap();
            writeln!(expected, "{kind}.{field} {at}").unwrap();
        }
    }
    for (name, value) in [
        ("RAVELIN_CIPHER_ABI_MAJOR", u64::from(MAJOR)),
        ("RAVELIN_CIPHER_BLOCK", BLOCK.into()),
        ("RAVELIN_CIPHER_STREAM", STREAM.into()),
        ("RAVELIN_CIPHER_AEAD", AEAD.into()),
        ("RAVELIN_CIPHER_CONSTANT_TIME", CONSTANT_TIME),
        ("RAVELIN_CIPHER_IN_PLACE", IN_PLACE),
        ("RAVELIN_CIPHER_OVERLAP_FORBIDDEN", OVERLAP_FORBIDDEN),
    ] {
        writeln!(program, "printf(\"{name} %u\\n\", {name});").unwrap();
        writeln!(expected, "{name} {value}").unwrap();
    }
    for (name, value) in
        [("OK", OK), ("BAD_LENGTH", BAD_LENGTH), ("WEAK_KEY", WEAK_KEY), ("BAD_TAG", BAD_TAG)]
    {
        writeln!(program, "printf(\"{name} %d\\n\", RAVELIN_CIPHER_{name});").unwrap();
        writeln!(expected, "{name} {value}").unwrap();
    }
    program.push_str("return 0; }\n");
    for (compiler, standard, file) in [("cc", "-std=c11", "layout.c"), ("c++", "-std=c++17", "layout.cc")] {
        let source = folder.join(file);
        std::fs::write(&source, &program).unwrap();
        let binary = folder.join("layout");
        let mut command = Command::new(compiler);
        command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(&include);
        let status = command.arg("-o").arg(&binary).arg(&source).status().unwrap();
        assert!(status.success(), "{compiler}");
        let printed = Command::new(&binary).output().unwrap().stdout;
        assert_eq!(String::from_utf8(printed).unwrap(), expected, "{compiler} {standard}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
