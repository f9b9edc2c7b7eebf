//! Libraries with one fault of conduct each: what they do as they run.

use std::fs;

use crate::lab::{Folder, vectors};

/// The words that the error of a library with this fault must have.
fn assert_refused(arguments: &[&str], words: &[&str]) {
    let error = Folder::with(arguments).refused();
    for word in words {
        assert!(error.contains(word), "{arguments:?} should be refused as {word:?}: {error}");
    }
}

#[test]
fn what_asks_the_kernel_for_something_is_named() {
    let calls = [
        ("CONSTRUCTOR=toy_sink=open(\"/etc/passwd\",O_RDONLY)", "openat", "constructors"),
        ("CONSTRUCTOR=toy_sink=open(\"/proc/self/fd/3x\",O_RDONLY)", "openat", "constructors"),
        (
            "CONSTRUCTOR=struct stat s;toy_sink=syscall(SYS_newfstatat,AT_FDCWD,\"/etc/passwd\",&s,0x1000)",
            "stat",
            "constructors",
        ),
        ("CONSTRUCTOR=toy_sink=read(0,(void*)&toy_sink,1)", "read", "constructors"),
        ("CONSTRUCTOR=toy_sink=socket(AF_INET,SOCK_STREAM,0)", "socket", "constructors"),
        ("CONSTRUCTOR=toy_sink=fork()", "clone", "constructors"),
        ("CONSTRUCTOR=toy_sink=write(1,\"x\",1)", "write", "constructors"),
        ("CONSTRUCTOR=signal(SIGUSR1,SIG_IGN)", "rt_sigaction", "constructors"),
        ("CONSTRUCTOR=execl(\"/bin/true\",\"true\",(char*)0)", "execve", "constructors"),
        ("CONSTRUCTOR=toy_sink=kill(1,0)", "kill", "constructors"),
        (
            "CONSTRUCTOR=toy_sink=mmap(0,4096,PROT_READ|PROT_WRITE|PROT_EXEC,MAP_PRIVATE|MAP_ANONYMOUS,-1,0)!=0",
            "mmap",
            "constructors",
        ),
        ("IN_SETKEY=toy_sink=open(\"/etc/passwd\",O_RDONLY)", "openat", "vectors"),
        ("IN_SETKEY=usleep(1)", "nanosleep", "vectors"),
        ("IN_PACKET=toy_sink=socket(AF_INET,SOCK_STREAM,0)", "socket", "vectors"),
        ("IN_PACKET=toy_sink=fork()", "clone", "vectors"),
        ("IN_PACKET=toy_sink=read(0,(void*)&toy_sink,1)", "read", "vectors"),
    ];
    for (fault, call, stage) in calls {
        let stage = format!("during {stage}");
        assert_refused(&["-DINCLUDES", &format!("-D{fault}")], &[&format!("it called {call}"), &stage]);
    }
}

#[test]
fn what_crashes_or_ends_the_process_is_named() {
    for (place, stage) in
        [("CONSTRUCTOR", "constructors"), ("IN_SETKEY", "vectors"), ("IN_PACKET", "vectors")]
    {
        let stage = format!("during {stage}");
        for (fault, words) in [
            ("*(volatile int*)8=1", "SIGSEGV ended it"),
            ("__builtin_trap()", "SIGILL ended it"),
            ("abort()", "SIGABRT ended it"),
            ("_exit(7)", "it ended the process with status 7"),
            ("exit(0)", "it ended the process with status 0"),
        ] {
            assert_refused(&["-DINCLUDES", &format!("-D{place}={fault}")], &[words, &stage]);
        }
    }
}

#[test]
fn what_never_ends_is_ended() {
    for (place, stage) in
        [("CONSTRUCTOR", "constructors"), ("IN_SETKEY", "vectors"), ("IN_PACKET", "vectors")]
    {
        let error = Folder::with(&[&format!("-D{place}=for(;;)toy_sink=1")]).refused();
        // A busy machine may not give it two seconds of processor time in five.
        assert!(error.contains("SIGXCPU") || error.contains("within 5 seconds"), "{error}");
        assert!(error.contains(&format!("during {stage}")), "{error}");
    }
}

#[test]
fn the_child_of_a_trial_has_given_up_everything() {
    let folder = Folder::with(&["-DCONSTRUCTOR=for(;;)toy_sink=1"]);
    let mut request = folder.request();
    // A mark on the command line, which changes nothing.
    let mark = format!("--skip={}", folder.0.display());
    request.trial.arguments.push((&mark).into());
    let loading = std::thread::spawn(move || cipher_loader::load(&request).map(|_| ()));
    let mut seen = false;
    while !seen && !loading.is_finished() {
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            seen |= command.ends_with(format!("{mark}\0").as_bytes()) && is_bare(&entry.path());
        }
    }
    assert!(loading.join().unwrap().is_err());
    assert!(seen, "no process without rights was seen");
}

/// Whether the library's thread of this process has no capability, and the process is limited and filtered.
fn is_bare(process: &std::path::Path) -> bool {
    let text = |path: std::path::PathBuf| fs::read_to_string(path).unwrap_or_default();
    let Ok(threads) = fs::read_dir(process.join("task")) else { return false };
    let threads: Vec<String> = threads.flatten().map(|task| text(task.path().join("status"))).collect();
    let has = |status: &String, line: &str| status.contains(&format!("\n{line}\n"));
    let none = |status: &&String| {
        ["CapInh", "CapPrm", "CapEff", "CapAmb"].iter().all(|set| has(status, &format!("{set}:\t{:016}", 0)))
    };
    let limits = text(process.join("limits"));
    let limited = |what: &str, most: &str| {
        limits.lines().any(|line| line.starts_with(what) && line.split_whitespace().any(|word| word == most))
    };
    threads.iter().any(|status| none(&status))
        && threads.iter().all(|status| has(status, "NoNewPrivs:\t1") && has(status, "Seccomp:\t2"))
        && limited("Max address space", "1073741824")
        && limited("Max cpu time", "2")
        && limited("Max core file size", "0")
        && limited("Max file size", "0")
        && limited("Max processes", "0")
        && limited("Max open files", "64")
}

#[test]
fn what_writes_where_it_must_not_is_named() {
    // Behind a buffer, even if what was there stays.
    assert_refused(
        &["-DFLAGS=3", "-DBEHIND=*(volatile uint8_t*)dst=*dst"],
        &["SIGSEGV ended it as it touched memory beside a buffer", "check placement"],
    );
    assert_refused(
        &["-DCTR=12", "-DCTR_BEHIND"],
        &["SIGSEGV ended it as it touched memory beside a buffer", "check edges"],
    );
    // Into the context of a key that is in use.
    assert_refused(
        &["-DIN_PACKET=*(volatile uint64_t*)ctx=*k"],
        &["SIGSEGV ended it as it touched a context that it may only read", "vectors"],
    );
    // Behind the context, on the guard page and in front of it.
    assert_refused(&["-DSETKEY_BEHIND=0"], &["SIGSEGV ended it", "vectors"]);
    assert_refused(&["-DCTX_SIZE=130", "-DSETKEY_BEHIND=3"], &["setkey wrote beside its context"]);
    assert_refused(&["-DCTX_SIZE=64"], &["SIGSEGV ended it"]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_needs_alignment_is_named() {
    assert_refused(
        &["-DALIGNED", "-DFLAGS=3"],
        &["SIGSEGV ended it as it used an address that is not aligned"],
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_changes_the_floating_point_control_is_named() {
    for (place, during) in
        [("CONSTRUCTOR", "constructors"), ("IN_SETKEY", "vectors"), ("IN_PACKET", "vectors")]
    {
        let fault = format!("-D{place}=_mm_setcsr(_mm_getcsr()|0x8000)");
        assert_refused(&[&fault], &["check `registers`: it changed the floating point control", during]);
        let fault = format!("-D{place}={{short w=0x27f;__asm__ volatile(\"fldcw %0\"::\"m\"(w));}}");
        assert_refused(&[&fault], &["check `registers`: it changed the floating point control", during]);
    }
}

#[test]
fn what_keeps_keys_outside_of_the_context_is_found() {
    assert_refused(&["-DGLOBAL_KEY"], &["check `keys`", "the key is not in the context"]);
    // A library that counts its calls, and is wrong from some call on.
    let state = "-DIN_PACKET=static int calls;if(++calls>1000){memset(dst,0,16*blocks);return;}";
    assert_refused(&[state], &["check `"]);
    assert_refused(&["-DCACHED_KEY"], &["test vector 2: "]);
}

#[test]
fn what_computes_wrongly_is_found() {
    assert_refused(&["-DDECRYPT_RARE"], &["check `inverse`", "is decrypted wrongly"]);
    assert_refused(&["-DMANY"], &["check `multiblock`", "20 at once are not the same as 20 one by one"]);
    assert_refused(&["-DANY_LENGTH"], &["check `setkey`", "setkey takes a key of"]);
    assert_refused(&["-DANSWER=5"], &["setkey answered 5, which has no meaning"]);
    assert_refused(&["-DANSWER=-2"], &["test vector 1: setkey says that the key is weak"]);
    // The counter must wrap without carry; the vectors show it.
    assert_refused(&["-DCTR=8"], &["test vector 121: "]);
}

#[test]
fn its_own_modes_are_compared_with_its_blocks() {
    let folder = Folder::with(&["-DCTR=8"]);
    // Without vectors of counter mode the check alone can find it.
    let text = vectors();
    let end = text.find(",{\"tcId\":121,").unwrap();
    fs::write(folder.path("vectors.json"), format!("{}]}}", &text[..end])).unwrap();
    folder.manifest(&[]);
    let error = folder.refused();
    assert!(error.contains("check `batch`") && error.contains("its own counter mode differs"), "{error}");
}

#[test]
fn one_wrong_vector_is_named() {
    let folder = Folder::with(&[]);
    let text = vectors();
    let at = text.find("\"tcId\":77,").unwrap();
    let at = at + text[at..].find("\"ct\":\"").unwrap() + 6;
    let digit = if &text[at..=at] == "0" { "1" } else { "0" };
    fs::write(folder.path("vectors.json"), format!("{}{digit}{}", &text[..at], &text[at + 1..])).unwrap();
    folder.manifest(&[]);
    let error = folder.refused();
    assert!(error.contains("toy.so: test vector 77: the ciphertext is another"), "{error}");
}

#[test]
fn what_throws_through_the_host_ends_its_own_process() {
    // What a C++ function does that throws: nobody behind the ABI catches it.
    let throws = "static struct _Unwind_Exception thrown;_Unwind_RaiseException(&thrown);abort()";
    for place in ["IN_SETKEY", "IN_PACKET"] {
        assert_refused(&["-DINCLUDES", "-fexceptions", &format!("-D{place}={throws}")], &["during vectors"]);
    }
}
