//! Compiles `bpf/sockmon.bpf.c`, `bpf/frames.bpf.c` and `bpf/line.bpf.c` with clang and turns the counter table of `bpf/include/abi.h` into Rust.
//! Needs clang (13 or later) with the `bpf` target; libbpf's headers come from libbpf-sys. No download.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by Cargo")).join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by Cargo"));
    let libbpf = env::var_os("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    let public = root.join("../include");
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
    let tests = root.join("../crates/sockmon/tests/programs");
    println!("cargo:rerun-if-changed={}", tests.join("ask.bpf.c").display());
    for (name, folder) in [("sockmon", &root), ("frames", &root), ("line", &root), ("ask", &tests)] {
        let status = Command::new(&clang)
            .args(["-target", "bpf", "-O2", "-g", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"])
            .args(["-Wno-unused-parameter", "-Wno-missing-declarations", "-fno-stack-protector"])
            .arg(format!("-D__TARGET_ARCH_{arch}"))
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

/// `X(ID, name)` lines become an array of names.
fn counters(header: &Path, out: &Path) {
    let text = fs::read_to_string(header).unwrap_or_else(|e| panic!("{}: {e}", header.display()));
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("X(")?.split_once(',')?.1.split_once(')'))
        .map(|(name, _)| name.trim())
        .collect();
    assert!(!names.is_empty(), "no counter in {}", header.display());
    let list: String = names.iter().map(|name| format!("    \"{name}\",\n")).collect();
    let code = format!(
        "/// Names of the counters, by their number in the map.\npub const COUNTERS: [&str; {}] = [\n{list}];\n",
        names.len()
    );
    fs::write(out, code).unwrap_or_else(|e| panic!("{}: {e}", out.display()));
}
