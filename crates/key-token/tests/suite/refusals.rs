//! What is refused: each says where, why and what to do, none says a key or a PIN, and none costs a file.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::lab::{Kind, Lab, MODULE, PIN, Refused, answer, uri};

/// Look at a refusal: it is of this kind, says these words, and has a remedy. The file still opens.
fn refused(result: Result<String, Refused>, fault: &str, words: &[&str]) -> Refused {
    let refused = result.unwrap_err();
    assert_eq!(refused.fault, fault, "{refused:?}");
    for word in words {
        assert!(refused.text.contains(word), "{word} in {refused:?}");
    }
    assert!(!refused.remedy.is_empty());
    let all = format!("{refused:?}");
    assert!(!all.contains(PIN) && !all.contains("wrong-pin"), "{all}");
    refused
}

fn lab() -> (Lab, std::path::PathBuf) {
    let lab = Lab::new();
    let key = lab.token_with("gateway", Kind::P256);
    let file = lab.wrap("one.key", &[&key]);
    (lab, file)
}

#[test]
fn a_wrong_pin_is_refused_and_costs_no_file() {
    let (lab, file) = lab();
    for pin in ["wrong-pin", "wrong-pin\n", &"9".repeat(255)] {
        refused(lab.job("open", &uri("gateway"), &file, pin), "Pin", &["gateway", "refuses the PIN"]);
    }
    refused(lab.job("open", &uri("gateway"), &file, ""), "Pin", &["descriptor 0", "empty"]);
    refused(lab.job("open", &uri("gateway"), &file, &"9".repeat(256)), "Pin", &["descriptor 0", "255"]);
    refused(lab.job("open without a PIN", &uri("gateway"), &file, ""), "Pin", &["none is given"]);
    assert!(!lab.book().exists());
    lab.job("open", &uri("gateway"), &file, &format!("{PIN}\n")).unwrap();
}

#[test]
fn another_token_is_refused_and_costs_no_file() {
    let (lab, file) = lab();
    lab.token_with("stranger", Kind::P256);
    let said =
        refused(lab.open(&uri("stranger"), &file), "OtherToken", &["sealed to other keys", "stranger"]);
    assert!(said.remedy.contains("ravelin key wrap"), "{said:?}");
    // With one and the same label, nothing tells them apart but the serial number.
    refused(lab.open(&uri("nobody"), &file), "Token", &["no token is", "nobody", "token=\"gateway\""]);
    let any = format!("pkcs11:?module-path={MODULE}");
    refused(lab.open(&any, &file), "Token", &["more than one token", "stranger"]);
    let no_key = format!("pkcs11:token=gateway;object=none?module-path={MODULE}");
    refused(lab.open(&no_key, &file), "Token", &["no private key", "none"]);
    refused(lab.job("public key", &no_key, &file, ""), "PublicKey", &["shows no public key"]);
    assert!(!lab.book().exists());
    lab.open(&uri("gateway"), &file).unwrap();
}

#[test]
fn a_file_with_any_octet_altered_is_refused() {
    for (kind, octets) in [(Kind::Rsa, 38 + 35 + 256 + 52), (Kind::P256, 38 + 35 + 113 + 52)] {
        let lab = Lab::new();
        let key = lab.token_with("gateway", kind);
        let file = lab.wrap("one.key", &[&key]);
        let flipped = lab.job("flip every octet", &uri("gateway"), &file, PIN).unwrap();
        assert_eq!(flipped, octets.to_string());
        assert_eq!(fs::metadata(lab.book()).unwrap().len(), 2 * 32, "one entry, that of the whole file");
    }
}

#[test]
fn of_two_processes_at_once_one_opens_the_file() {
    let (lab, file) = lab();
    for round in 0..4 {
        let (lab, file) = if round == 0 { (&lab, file.clone()) } else { (&lab, again(&lab, round)) };
        let mut children: Vec<_> = (0..3)
            .map(|_| lab.command("open beside others", &uri("gateway"), &file).spawn().unwrap())
            .collect();
        for child in &mut children {
            child.stdin.take().unwrap().write_all(PIN.as_bytes()).unwrap();
        }
        let answers: Vec<_> =
            children.into_iter().map(|child| answer(&child.wait_with_output().unwrap())).collect();
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
        for other in answers.into_iter().filter_map(Result::err) {
            assert_eq!(other.fault, "Used", "{other:?}");
        }
    }
}

fn again(lab: &Lab, round: u32) -> std::path::PathBuf {
    lab.wrap(&format!("{round}.key"), &[&lab.path("gateway-ipsec.pem")])
}

#[test]
fn a_module_that_is_missing_or_none_is_refused() {
    let (lab, file) = lab();
    let with = |module: &Path| format!("pkcs11:token=gateway?module-path={}", module.display());
    let missing = lab.path("missing.so");
    let said = refused(lab.open(&with(&missing), &file), "Module", &["missing.so", "No such file"]);
    assert!(said.remedy.contains("module-path"), "{said:?}");
    let text = lab.path("text.so");
    fs::write(&text, "no library").unwrap();
    refused(lab.open(&with(&text), &file), "Module", &["text.so", "cannot be loaded"]);
    // A library that is no PKCS#11 module.
    let libc = fs::read_dir("/usr/lib/x86_64-linux-gnu")
        .or_else(|_| fs::read_dir("/usr/lib/aarch64-linux-gnu"))
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.ends_with("libz.so.1"))
        .unwrap();
    refused(lab.open(&with(&libc), &file), "Module", &["libz.so.1", "C_GetFunctionList"]);
    refused(lab.open(&with(Path::new("/dev/null")), &file), "Module", &["it is no file"]);
    // Everybody's to write: its code would run with the rights of the command.
    let module = lab.path("module.so");
    fs::copy(MODULE, &module).unwrap();
    fs::set_permissions(&module, fs::Permissions::from_mode(0o666)).unwrap();
    refused(lab.open(&with(&module), &file), "Module", &["module.so", "others may write it"]);
    fs::set_permissions(&module, fs::Permissions::from_mode(0o644)).unwrap();
    lab.open(&with(&module), &file).unwrap();
}

#[test]
fn a_file_that_is_missing_or_none_is_refused() {
    let (lab, file) = lab();
    refused(lab.open(&uri("gateway"), &lab.path("no.key")), "KeyFile", &["no.key", "cannot be read"]);
    let path = lab.path("wrong.key");
    let right = fs::read(&file).unwrap();
    for octets in
        [&b""[..], b"00112233", &right[..right.len() - 1], &vec![0; 1 << 20], &[&right[..], b"\n"].concat()]
    {
        fs::write(&path, octets).unwrap();
        refused(lab.open(&uri("gateway"), &path), "KeyFile", &["wrong.key"]);
    }
    assert!(!lab.book().exists());
}

#[test]
fn a_book_that_cannot_be_written_lets_no_key_out() {
    let (lab, file) = lab();
    // A file stands where the book's folder should be.
    fs::write(lab.path("state"), "").unwrap();
    refused(lab.open(&uri("gateway"), &file), "Book", &["used-key-files"]);
    fs::remove_file(lab.path("state")).unwrap();
    fs::create_dir(lab.path("state")).unwrap();
    fs::set_permissions(lab.path("state"), fs::Permissions::from_mode(0o777)).unwrap();
    refused(lab.open(&uri("gateway"), &file), "Book", &["used-key-files", "others may write it"]);
    fs::set_permissions(lab.path("state"), fs::Permissions::from_mode(0o700)).unwrap();
    lab.open(&uri("gateway"), &file).unwrap();
}
