//! Libraries with one fault each, which one check alone must find.

use std::fs;

use api::CipherCheck;
use cipher_kit::{CheckName, Kind, Language};

use crate::lab::{Folder, Toy, hex, vectors};
use crate::new;
use crate::run::{assert_fails, report, report_within, toy};

#[test]
fn a_wrong_description_is_found() {
    let report = report(&toy(&["-DMAJOR=2"]).path("manifest.json"), &[]);
    let [descriptor, others @ ..] = &report.checks[..] else { panic!("no checks") };
    assert!(!descriptor.ok && descriptor.detail.contains("it was made for ABI 2.0"), "{descriptor:?}");
    assert!(others.iter().all(|check| check.detail == "not run, because `descriptor` failed" && !check.ok));
}

#[test]
fn a_wrong_vector_is_named() {
    let folder = toy(&[]);
    let text = vectors();
    let at = text.find("\"tcId\":77,").unwrap();
    let at = at + text[at..].find("\"ct\":\"").unwrap() + 6;
    let digit = if &text[at..=at] == "0" { "1" } else { "0" };
    fs::write(folder.path("vectors.json"), format!("{}{digit}{}", &text[..at], &text[at + 1..])).unwrap();
    folder.manifest(&[]);
    assert_fails(&folder, "vectors", &["test vector 77: the ciphertext is another"]);
}

#[test]
fn one_wrong_decryption_in_a_hundred_thousand_is_found() {
    assert_fails(&toy(&["-DDECRYPT_RARER"]), "inverse", &["is decrypted to another"]);
}

#[test]
fn two_blocks_with_one_ciphertext_are_found() {
    assert_fails(&toy(&["-DNOT_ONE_TO_ONE"]), "permutation", &["two blocks have one ciphertext"]);
}

#[test]
fn a_number_of_blocks_that_is_wrong_is_found() {
    assert_fails(&toy(&["-DMANY"]), "multiblock", &["20 at once are not the same as 20 one by one"]);
}

#[test]
fn an_address_that_is_wrong_is_found() {
    assert_fails(&toy(&["-DODD_PLACE"]), "placement", &["give another ciphertext"]);
}

#[test]
fn state_that_threads_share_is_found() {
    assert_fails(&toy(&["-DSHARED"]), "reentrancy", &[]);
}

#[test]
fn a_write_to_the_context_is_found() {
    let words = "SIGSEGV ended it as it touched a context that it may only read";
    assert_fails(&toy(&["-DIN_PACKET=*(volatile uint64_t*)ctx=*k"]), "immutability", &[words]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn control_words_that_are_changed_are_found() {
    let fault = "-DIN_PACKET=_mm_setcsr(_mm_getcsr()|0x8000)";
    assert_fails(
        &toy(&[fault]),
        "immutability",
        &["it changed the floating point control (MXCSR) in a call"],
    );
    // Other checks may fail as well: the host's own code goes backward then.
    let report =
        report(&toy(&["-DBEHIND=__asm__ volatile(\"std\")"]).path("manifest.json"), &[CheckName::Memory]);
    let found = report.checks.iter().find(|check| check.name == "immutability").unwrap();
    assert!(!found.ok && found.detail.contains("it changed the direction flag in a call"), "{found:?}");
}

#[test]
fn a_copy_of_a_key_that_is_left_is_found() {
    let keep = "-DIN_SETKEY=static volatile uint8_t kept[KEY];for(int i=0;i<KEY;i++)kept[i]=key[i]";
    assert_fails(&toy(&[keep]), "wipe", &["a copy of the key", "in memory of the library's own"]);
    let keep = "-DIN_SETKEY=volatile uint8_t*kept=malloc(KEY);for(int i=0;i<KEY;i++)kept[i]=key[i]";
    assert_fails(&toy(&["-DINCLUDES", keep]), "wipe", &["a copy of the key", "in memory that was allocated"]);
    // Of the context as well, which is not the key.
    let keep = "-DIN_PACKET=static volatile uint64_t kept[2];if(!kept[0])kept[0]=k[7]";
    let told = report(&toy(&[keep]).path("manifest.json"), &[CheckName::Memory]);
    let wipe = told.checks.iter().find(|check| check.name == "wipe").unwrap();
    assert!(!wipe.ok && wipe.detail.contains("or of its context"), "{wipe:?}");
}

#[test]
fn a_key_of_another_length_that_is_taken_is_found() {
    assert_fails(&toy(&["-DANY_LENGTH"]), "keys", &["setkey takes a key of"]);
}

#[test]
fn a_bit_of_the_tag_that_nobody_looks_at_is_found() {
    let (folder, skeleton) = new::finished(Language::C, Kind::Aead);
    let source = folder.path(&skeleton.place());
    let text = fs::read_to_string(&source).unwrap();
    let wrong =
        text.replace("differ |= want[i] ^ tag[i];", "differ |= (want[i] ^ tag[i]) & (i == 3 ? 0xfe : 0xff);");
    assert_ne!(wrong, text);
    fs::write(&source, wrong).unwrap();
    new::make(&folder);
    fs::rename(folder.path("mycipher.json"), folder.path("manifest.json")).unwrap();
    assert_fails(&folder, "forgery", &["opens with bit 24 of its tag changed"]);
}

#[test]
fn a_counter_that_only_packets_have_is_found() {
    let words = "is another than the host makes of the mandatory functions";
    assert_fails(&toy(&["-DCTR=12", "-DCTR_FIRST"]), "esp", &["toycipherctr-", words]);
}

#[test]
fn what_is_wrong_once_in_a_quarter_of_a_million_is_found() {
    let folder = toy(&["-DRARE"]);
    // The chain of the check, computed by the second form of the toy.
    let mut key: [u8; 32] = std::array::from_fn(|at| at as u8);
    let mut text = [0; 16];
    for _ in 0..1000 {
        let toy = Toy::new(&key);
        (0..1000).for_each(|_| toy.encrypt(&mut text));
        key.iter_mut().zip(text.iter().cycle()).for_each(|(to, from)| *to ^= from);
    }
    let pinned = format!("{{\"montecarlo\":\"{}\",", hex(&text));
    fs::write(folder.path("vectors.json"), vectors().replacen('{', &pinned, 1)).unwrap();
    folder.manifest(&[]);
    assert_fails(&folder, "montecarlo", &["and the vector file says", &hex(&text)]);
    // Without the fault it is as pinned.
    folder.compile_source(crate::run::TOY, &[]);
    folder.manifest(&[]);
    let report = report(&folder.path("manifest.json"), &[CheckName::Memory]);
    assert!(report.ok, "{report:#?}");
    assert!(report.checks[12].detail.contains("as the vector file says"), "{report:#?}");
}

#[test]
fn an_own_mode_that_differs_is_found() {
    assert_fails(
        &toy(&["-DCTR=12", "-DCTR_LONG"]),
        "agreement",
        &["its own counter mode differs from its blocks"],
    );
}

#[test]
fn what_nobody_wrote_is_found() {
    let branch = "-DIN_PACKET=volatile uint8_t junk[64];if(junk[5]==7)__asm__ volatile(\"nop\")";
    assert_fails(&toy(&[branch]), "memory", &["valgrind: ", "uninitialised value"]);
}

#[test]
fn what_never_ends_is_ended_and_asked_no_further() {
    let folder = toy(&["-DIN_PACKET=for(;;)toy_sink=1"]);
    let told = report_within(&folder.path("manifest.json"), &[], 1);
    assert!(told.checks[0].ok && told.checks.iter().skip(1).all(|check| !check.ok), "{told:#?}");
    let ended =
        |check: &&CipherCheck| check.detail.contains("SIGXCPU") || check.detail.contains("within 5 seconds");
    // Those that had begun, and no other.
    let ended: Vec<&str> = told.checks.iter().filter(ended).map(|check| &*check.name).collect();
    assert!(ended.contains(&"vectors") && ended.len() <= 4, "{told:#?}");
    let not_run = "not run, because another check did not end in time";
    assert_eq!(
        told.checks.iter().filter(|check| check.detail == not_run).count(),
        14 - ended.len(),
        "{told:#?}"
    );
}

#[test]
fn what_asks_the_kernel_is_refused_and_never_runs_without_the_filter() {
    let folder = toy(&["-DINCLUDES", "-DIN_PACKET=toy_sink=open(\"/etc/passwd\",O_RDONLY)"]);
    let told = report(&folder.path("manifest.json"), &[]);
    let detail = |name: &str| &told.checks.iter().find(|check| check.name == name).unwrap().detail;
    assert!(detail("vectors").contains("it called openat, which no cipher may"), "{told:#?}");
    assert!(detail("memory").starts_with("not run: the library asks the kernel"), "{told:#?}");
    assert!(!told.ok);
}

#[test]
fn a_file_that_is_not_the_manifests_is_told() {
    let folder: Folder = toy(&[]);
    fs::write(folder.path("vectors.json"), vectors() + " ").unwrap();
    let told = report(&folder.path("manifest.json"), &[]);
    let failed = told.checks.iter().find(|check| !check.detail.starts_with("not run")).unwrap();
    assert_eq!(failed.name, "vectors");
    assert!(
        failed.detail.contains("its SHA-256 is") && failed.detail.contains("write its digest"),
        "{failed:?}"
    );
    assert!(told.checks.iter().all(|check| !check.ok));
}
