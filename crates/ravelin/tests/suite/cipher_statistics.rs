//! `ravelin cipher stats`, `ct`, `stream` and `report`, as an operator types them. No time is compared with anything.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::kit::{Folder, err, out, ravelin, run};

fn json(args: &[&str]) -> (Option<i32>, Value) {
    let output = run(args);
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", err(&output)));
    (output.status.code(), document)
}

#[test]
fn statistics_of_the_compiled_in_cipher() {
    let (status, report) = json(&["cipher", "stats", "maes512", "--quick", "--own", "--json"]);
    assert_eq!((status, &report["ok"], &report["void"]), (Some(0), &true.into(), &false.into()), "{report}");
    assert_eq!(report["cipher"], "maes512");
    assert_eq!(report["seed"], "243f6a8885a308d3");
    assert!(report["statement"].as_str().unwrap().contains("proves nothing about strength"));
    assert_eq!(report["controls"].as_array().unwrap().len(), 7);
    assert!(report["outside"].is_null());
}

#[test]
fn valgrind_flags_a_table_and_not_the_compiled_in_cipher() {
    let (status, report) = json(&["cipher", "ct", "maes512", "--without", "timing", "--json"]);
    let check =
        report["checks"].as_array().unwrap().iter().find(|check| check["method"] == "valgrind").unwrap();
    let installed = Command::new("valgrind").arg("--version").output().is_ok();
    if !installed {
        // Then it is said, and nothing counts as checked.
        println!("valgrind is not installed: what it says of a table is NOT tested here");
        assert!(check["detail"].as_str().unwrap().contains("install Debian's package valgrind"), "{report}");
        assert_eq!((status, &report["ok"]), (Some(1), &false.into()), "{report}");
        return;
    }
    let control = |name: &str| {
        let controls = report["controls"].as_array().unwrap();
        controls.iter().find(|control| control["name"] == name).unwrap().clone()
    };
    let table = control("AES with a table");
    assert_eq!((&table["must_be_flagged"], &table["ok"]), (&true.into(), &true.into()), "{table}");
    assert!(table["detail"].as_str().unwrap().contains("uninitialised"), "{table}");
    let constant = control("AES of the crate aes");
    assert_eq!((&constant["must_be_flagged"], &constant["ok"]), (&false.into(), &true.into()), "{constant}");
    assert_eq!((&check["ok"], status), (&true.into(), Some(0)), "{report}");
    assert!(report["code_path"].as_str().unwrap().contains("on a processor with"), "{report}");
}

/// A copy of the example in C, in which encryption reads a table at a place that the key chooses.
fn library_with_a_table(folder: &Folder) -> String {
    let house = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let copied = Command::new("cp").arg("-r").arg(house.join("include")).arg(&folder.0).status().unwrap();
    let examples = folder.0.join("examples");
    std::fs::create_dir_all(&examples).unwrap();
    let ciphers =
        Command::new("cp").arg("-r").arg(house.join("examples/ciphers")).arg(&examples).status().unwrap();
    assert!(copied.success() && ciphers.success());
    let source = examples.join("ciphers/aes256c/aes256c.c");
    let text = std::fs::read_to_string(&source).unwrap();
    let call = "    each(ctx, dst, src, blocks, aes256_encrypt4);";
    let leak = "    static const uint8_t table[256] = {1, 2, 3};\n    volatile uint8_t seen = table[*(const uint8_t *)ctx];\n\
                \x20   (void)seen;\n";
    assert!(text.contains(call));
    std::fs::write(&source, text.replace(call, &format!("{leak}{call}"))).unwrap();
    let out = folder.0.join("out").display().to_string();
    let manifest = format!("{out}/aes256c.json");
    let make = Command::new("make")
        .args(["-C", &examples.join("ciphers").display().to_string(), &format!("OUT={out}"), &manifest])
        .output()
        .unwrap();
    assert!(make.status.success(), "{}", err(&make));
    manifest
}

#[test]
fn valgrind_flags_a_library_that_reads_a_table_by_its_key() {
    let folder = Folder::new("cipher-table");
    let manifest = library_with_a_table(&folder);
    let (status, report) = json(&["cipher", "ct", &manifest, "--without", "timing", "--json"]);
    assert_eq!((status, &report["ok"]), (Some(1), &false.into()), "{report}");
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind is not installed: what it says of a library is NOT tested here");
        return;
    }
    assert_eq!(report["void"], false, "{report}");
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["method"] == "valgrind").unwrap();
    // One place in each of the seven calls.
    assert!(check["detail"].as_str().unwrap().starts_with("7 branches or addresses"), "{check}");
}

#[test]
fn leaving_everything_out_is_no_pass() {
    let (status, report) =
        json(&["cipher", "ct", "maes512", "--without", "timing", "--without", "valgrind", "--json"]);
    assert_eq!((status, &report["ok"]), (Some(1), &false.into()), "{report}");
}

#[test]
fn a_key_stream_is_repeated_by_its_seed_and_ends_where_it_is_told() {
    let stream = |args: &[&str]| {
        let output = ravelin().args(["cipher", "stream", "maes512"]).args(args).output().unwrap();
        assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
        output.stdout
    };
    let first = stream(&["--octets", "70001"]);
    assert_eq!(first.len(), 70_001);
    assert_eq!(stream(&["--octets", "5000"]), first[..5000]);
    assert_ne!(stream(&["--octets", "5000", "--seed", "1"]), first[..5000]);
    let wrong = run(&["cipher", "stream", "maes512", "--seed", "xyz"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("hexadecimal digits"), "{}", err(&wrong));
}

#[test]
fn a_key_stream_without_end_ends_quietly_with_its_reader() {
    let mut command = ravelin();
    command.args(["cipher", "stream", "maes512"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut some = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()));
    assert_ne!(some, [0; 1000]);
}

#[test]
fn a_page_is_made_of_the_documents_of_one_cipher() {
    let folder = Folder::new("cipher-report");
    let path = folder.0.join("mycipher").display().to_string();
    assert!(run(&["cipher", "new", "mycipher", "--lang", "c", "--dir", &path]).status.success());
    assert!(Command::new("make").args(["-C", &path]).output().unwrap().status.success());
    let (manifest, page) = (format!("{path}/mycipher.json"), format!("{path}/page.html"));
    let checked = run(&["cipher", "check", &manifest, "--json", "--without", "memory"]);
    let check = folder.file("check.json", &out(&checked));
    let made = run(&["cipher", "report", &manifest, "--check", &check, "--output", &page]);
    assert_eq!(made.status.code(), Some(0), "{}", err(&made));
    let html = std::fs::read_to_string(&page).unwrap();
    for words in [
        "Cipher mycipher",
        "proves nothing about strength",
        "did NOT pass",
        "not part of this report",
        "GCC: (",
        "SHA-256 of the library",
    ] {
        assert!(html.contains(words), "{words}");
    }
    // The document of another cipher is not taken.
    let other = folder.file("other.json", &out(&checked).replace("\"mycipher\"", "\"other\""));
    let refused = run(&["cipher", "report", &manifest, "--check", &other, "--output", &page]);
    assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
    assert!(err(&refused).contains("about the cipher other"), "{}", err(&refused));
}
