//! Compiles `bpf/sockmon.bpf.c`, `bpf/frames.bpf.c` and `bpf/line.bpf.c` with clang and turns the counter table of `bpf/include/abi.h` into Rust.
//! Needs clang (13 or later) with the `bpf` target; libbpf's headers come from libbpf-sys. No download.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let room = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by Cargo"));
    let repository = room.join("../..").canonicalize().expect("the room is two folders below the repository");
    let root = repository.join("bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by Cargo"));
    let libbpf = env::var_os("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    let public = repository.join("include");
    println!("cargo:rerun-if-changed={}", root.display());
    println!("cargo:rerun-if-changed={}", public.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    counters(&root.join("include/abi.h"), &out.join("counters.rs"));

    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        Ok("riscv64") => "riscv",
        Ok("s390x") => "s390",
        Ok("powerpc64") => "powerpc",
        other => panic!("no BPF tracing headers for {other:?}"),
    };
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    // The last one is a test's: it includes what the kernel half decides with.
    let tests = room.join("tests/programs");
    println!("cargo:rerun-if-changed={}", tests.join("ask.bpf.c").display());
    for (name, folder) in [("sockmon", &root), ("frames", &root), ("line", &root), ("ask", &tests)] {
        let status = Command::new(&clang)
            .args(["-target", "bpf", "-O2", "-g", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"])
            .args(["-Wno-unused-parameter", "-Wno-missing-declarations", "-fno-stack-protector"])
            .arg(format!("-D__TARGET_ARCH_{arch}"))
            // The objects keep the names of their sources. Those are not to tell where this machine has them.
            .arg(format!("-ffile-prefix-map={}=ravelin", repository.display()))
            .arg(format!("-ffile-prefix-map={}=libbpf", Path::new(&libbpf).display()))
            .arg("-fdebug-compilation-dir=ravelin")
            .arg("-I")
            .arg(root.join("include"))
            .arg("-I")
            .arg(&public)
            .arg("-I")
            .arg(&libbpf)
            .arg("-c")
            .arg(folder.join(format!("{name}.bpf.c")))
            .arg("-o")
            .arg(out.join(format!("{name}.bpf.o")))
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => panic!("{clang} could not compile {name}.bpf.c: {status}"),
            Err(error) => {
                panic!("cannot run {clang}: {error}. Install it (Debian: apt-get install clang) or set CLANG")
            }
        }
    }
}

/// The rows `X(ID, name, KIND, "sentence")` become an array of names, and one of what each counter means.
fn counters(header: &Path, out: &Path) {
    let text = fs::read_to_string(header).unwrap_or_else(|e| panic!("{}: {e}", header.display()));
    let (mut names, mut meanings) = (String::new(), String::new());
    let mut count = 0;
    for row in text.lines().filter_map(|line| line.trim().strip_prefix("X(")) {
        let row = row.trim_end_matches('\\').trim_end();
        let columns: Vec<&str> = row.strip_suffix(')').unwrap_or(row).splitn(4, ',').map(str::trim).collect();
        let &[_, name, kind, sentence] = columns.as_slice() else {
            panic!("{}: a counter has four columns, X({row}", header.display());
        };
        let refusal = match kind {
            "REFUSAL" => true,
            "EVENT" => false,
            other => panic!("{}: {name}: {other} is neither REFUSAL nor EVENT", header.display()),
        };
        names.push_str(&format!("    \"{name}\",\n"));
        meanings.push_str(&format!("    Meaning {{ refusal: {refusal}, text: {sentence} }},\n"));
        count += 1;
    }
    assert!(count > 0, "no counter in {}", header.display());
    let code = format!(
        "/// Names of the counters, by their number in the map.\npub const COUNTERS: [&str; {count}] = [\n{names}];\n\n\
         /// What each counter means, by its number in the map.\npub const MEANINGS: [Meaning; {count}] = [\n{meanings}];\n"
    );
    fs::write(out, code).unwrap_or_else(|e| panic!("{}: {e}", out.display()));
}
