//! Libraries that break a rule which needs none of their code, or describe themselves wrongly.

use std::fs;
use std::process::Command;

use cipher_loader::{ElfError, LoadError, Trust, examine};
use proptest::prelude::*;

use crate::lab::{Folder, trial};

fn elf_error(folder: &Folder) -> ElfError {
    match folder.load() {
        Err(LoadError::Elf { why, .. }) => {
            assert!(!why.remedy().is_empty());
            why
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_library_is_linked_with_is_judged() {
    let stack = Folder::with(&["-Wl,-z,execstack"]);
    assert_eq!(elf_error(&stack), ElfError::ExecutableStack);
    assert_eq!(elf_error(&Folder::with(&["-Wl,-rpath,/opt/lib"])), ElfError::SearchPath);
    assert_eq!(
        elf_error(&Folder::with(&["-Wl,-rpath,/opt/lib", "-Wl,--disable-new-dtags"])),
        ElfError::SearchPath
    );
    assert_eq!(elf_error(&Folder::with(&["-DSYMBOL=another_name"])), ElfError::Symbol("ravelin_cipher_v1"));
    assert_eq!(elf_error(&Folder::with(&["-Wl,-z,interpose,--filter=libother.so"])), needed("libother.so"));
    assert_eq!(
        elf_error(&Folder::with(&["-no-pie", "-fno-PIC", "-static", "-DMAIN", "-no-pie", "-r"])),
        ElfError::Kind(1)
    );
}

fn needed(name: &str) -> ElfError {
    ElfError::Needed(name.to_owned())
}

#[test]
fn a_library_that_needs_another_one_is_refused_before_it_is_mapped() {
    let folder = Folder::new();
    let other = folder.path("other.c");
    fs::write(&other, "int other(void) { return 1; }\n").unwrap();
    let library = folder.path("libother.so");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-Wl,-soname,libother.so.1", "-o"]);
    assert!(command.arg(&library).arg(&other).status().unwrap().success());
    let bad = Folder::with(&["-Wl,--no-as-needed", library.to_str().unwrap()]);
    assert_eq!(elf_error(&bad), needed("libother.so.1"));
    // The libraries of the C compiler may be outside.
    assert!(Folder::with(&["-Wl,--no-as-needed", "-lm", "-lgcc_s"]).load().is_ok());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn text_relocations_and_programs_are_refused() {
    let folder = Folder::new();
    let assembler = folder.path("text.s");
    fs::write(&assembler, ".text\n.quad toy_sink\n.section .note.GNU-stack,\"\",@progbits\n").unwrap();
    let bad = Folder::with(&["-Wl,-z,notext", "-fvisibility=default", assembler.to_str().unwrap()]);
    assert_eq!(elf_error(&bad), ElfError::TextRelocations);
    let program = Folder::with(&["-pie", "-DMAIN", "-Wl,-E"]);
    assert_eq!(elf_error(&program), ElfError::Interpreter);
}

/// The two readers of a file, the loader and this one, must see the same octets at each address.
#[test]
fn segments_that_overlap_are_refused() {
    let folder = Folder::with(&[]);
    let mut octets = fs::read(folder.path("toy.so")).unwrap();
    let word = |at: usize, octets: &[u8]| u64::from_le_bytes(octets[at..at + 8].try_into().unwrap()) as usize;
    // e_phoff, and e_phnum program headers of 56 octets (elf(5)).
    let (table, count) = (word(32, &octets), usize::from(octets[56]));
    let loads = (0..count).map(|at| table + 56 * at).filter(|at| octets[*at..at + 4] == [1, 0, 0, 0]);
    let loads: Vec<usize> = loads.collect();
    let first = octets[loads[0] + 16..loads[0] + 24].to_vec();
    octets[loads[1] + 16..loads[1] + 24].copy_from_slice(&first);
    fs::write(folder.path("toy.so"), octets).unwrap();
    folder.manifest(&[]);
    assert_eq!(elf_error(&folder), ElfError::Damaged("its segments lie one above another"));
}

#[test]
fn no_more_program_headers_are_read_than_a_library_has() {
    for count in [0u16, 65, 25_000, 0xffff] {
        let folder = Folder::with(&[]);
        let mut octets = fs::read(folder.path("toy.so")).unwrap();
        // e_phnum (elf(5)); with its last value the number stands in the first section.
        octets[56..58].copy_from_slice(&count.to_le_bytes());
        fs::write(folder.path("toy.so"), octets).unwrap();
        folder.manifest(&[]);
        let want = ElfError::Damaged("it has more program headers than a library has, or none");
        assert_eq!(elf_error(&folder), want, "{count}");
    }
}

#[test]
fn an_undefined_symbol_is_the_dynamic_loaders_error() {
    let error = Folder::with(&["-DIN_PACKET=extern int nowhere(void);toy_sink=nowhere()"]).refused();
    assert!(error.contains("the dynamic loader refuses it") && error.contains("nowhere"), "{error}");
}

#[test]
fn what_a_library_says_of_itself_is_judged() {
    for (arguments, words) in [
        (&["-DMAJOR=2"][..], "it was made for ABI 2.0"),
        (&["-DSIZE=100"], "its struct_size is 100"),
        (&["-DSIZE=4000"], "its struct_size is 4000"),
        (&["-DSIZE=4000", "-DDESCRIPTION=.abi_minor=1"], ""),
        (&["-DSIZE=4000000", "-DDESCRIPTION=.abi_minor=1"], "its struct_size is 4000000"),
        (&["-DFLAGS=9"], "its flags is 9"),
        (&["-DFLAGS=0"], "its flag of constant time is false, and the manifest says true"),
        (&["-DNAME=\"other\""], "none of its 1 ciphers has the manifest's name toycipher"),
        (&["-DNAME=\"other\"", "-DENDLESS"], "more than 64 ciphers"),
        (&["-DKEY_LEN=64"], "its key_len is 64, and the manifest says 32"),
        (&["-DKEY_LEN=8"], "a key of 8 octets"),
        (&["-DCTX_SIZE=0"], "its ctx_size is 0"),
        (&["-DCTX_SIZE=65537"], "its ctx_size is 65537"),
        (&["-DCTX_ALIGN=24"], "its ctx_align is 24"),
        (&["-DCTX_ALIGN=128"], "its ctx_align is 128"),
        (&["-DDESCRIPTION=.nonce_len=12"], "its nonce_len is 12"),
        (&["-DDESCRIPTION=.tag_len=16"], "its tag_len is 16"),
        (&["-DDESCRIPTION=.kind=4"], "its kind is 4"),
        (&["-DDESCRIPTION=.kind=0"], "its kind is 0"),
        (&["-DDESCRIPTION=.kind=2"], "its nonce_len is 0"),
        (&["-DDESCRIPTION=.version=\"2\""], "its version is \"2\", and the manifest says \"1\""),
        (&["-DDESCRIPTION=.max_octets_per_key=1"], "its max_octets_per_key is 1, and the manifest says 0"),
        (&["-DDESCRIPTION=.decrypt_blocks=0"], "its function decrypt_blocks is NULL"),
        (&["-DDESCRIPTION=.setkey=0"], "its function setkey is NULL"),
        (&["-DDESCRIPTION=.xor_at=(void*)encrypt"], "its function xor_at is not NULL"),
        (
            &["-DINCLUDES", "-DDESCRIPTION=.encrypt_blocks=(void*)abort"],
            "its encrypt_blocks points out of the library",
        ),
        (&["-DDESCRIPTION=.encrypt_blocks=(void*)&toy_sink"], "its encrypt_blocks points out of the library"),
        (&["-DDESCRIPTION=.vendor=(const char*)8"], "its vendor points out of the library"),
        (&["-DELSEWHERE=8"], "its description points out of the library"),
        (
            &["-DINCLUDES", "-DELSEWHERE=strcpy(malloc(500),\"\")"],
            "its description points out of the library",
        ),
    ] {
        let folder = Folder::with(arguments);
        if words.is_empty() {
            assert!(folder.load().is_ok(), "{arguments:?}");
            continue;
        }
        let error = folder.refused();
        assert!(error.contains(words), "{arguments:?} should be refused as {words:?}: {error}");
    }
    let long = format!("-DDESCRIPTION=.vendor=\"{}\"", "v".repeat(64));
    let error = Folder::with(&[&long]).refused();
    assert!(error.contains("its vendor has no end"), "{error}");
}

#[test]
fn a_cipher_with_blocks_of_8_octets_has_no_counter_mode() {
    let folder = Folder::with(&["-DCTR=12", "-DDESCRIPTION=.block_len=8"]);
    folder.manifest(&[("\"block\":16", "\"block\":8")]);
    let error = folder.refused();
    assert!(error.contains("its function ctr_xor is not NULL"), "{error}");
}

#[test]
fn a_program_that_is_no_child_is_no_trial() {
    let folder = Folder::with(&[]);
    let mut request = folder.request();
    for (program, words) in
        [("/bin/true", "status 0"), ("/bin/false", "status 1"), ("/nowhere", "could not begin")]
    {
        request.trial.program = program.into();
        let error = cipher_loader::load(&request).expect_err(program).to_string();
        assert!(error.contains(words), "{program}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn a_damaged_library_is_refused_or_judged_and_never_a_panic(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
        cut in proptest::option::of(0usize..20_000),
    ) {
        static GOOD: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let good = GOOD.get_or_init(|| fs::read(Folder::with(&[]).path("toy.so")).unwrap());
        let mut octets = good.clone();
        for (at, octet) in changes {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        octets.truncate(cut.unwrap_or(octets.len()));
        let folder = Folder::new();
        fs::write(folder.path("toy.so"), &octets).unwrap();
        fs::write(folder.path("vectors.json"), crate::lab::vectors()).unwrap();
        folder.manifest(&[]);
        // Nothing of it is run here.
        let request = folder.request();
        match examine(&request.manifest, request.sha256, Trust::Caller) {
            Ok(_) | Err(LoadError::Elf { .. }) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn the_command_of_a_trial_is_this_program() {
    assert_eq!(trial().program, std::env::current_exe().unwrap());
    assert_eq!(cipher_loader::Trial::own(["cipher", "trial"]).program.to_str(), Some("/proc/self/exe"));
}
