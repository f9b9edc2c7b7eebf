//! What the guest runs from: a file system in memory (initramfs) with `ravelin`, the programs that its demonstration drives, the tests
//! of `sockmon`, and what they are linked with, all of this machine.

use super::kernels::Kernel;
use crate::process::passes;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first process of the guest.
const INIT: &str = include_str!("init.sh");

/// Programs at the places that they have here.
const PROGRAMS: [&str; 9] = [
    "/usr/bin/busybox",
    // The shell: that of busybox has commands of its own that come before programs.
    "/usr/bin/dash",
    "/usr/bin/curl",
    "/usr/bin/wget",
    "/usr/bin/nc.openbsd",
    "/usr/bin/python3",
    // What tests start.
    "/usr/bin/setpriv",
    "/usr/sbin/ip",
    "/usr/sbin/nft",
];

/// Parts of Python's library that nobody here imports, and that are half of it.
const UNUSED: [&str; 7] =
    ["test", "idlelib", "tkinter", "lib2to3", "ensurepip", "pydoc_data", "dist-packages"];

/// Modules that the guest loads: `ravelin` needs the first, the wire of the lab the next two, tests the rest.
const MODULES: [&str; 10] = [
    "tun",
    "veth",
    "bridge",
    "fuse",
    "sctp",
    "nft_dup_ipv4",
    "nfnetlink_queue",
    "nft_queue",
    "l2tp_ppp",
    "l2tp_ip",
];

/// The tests of `sockmon`, built.
pub struct Tests {
    /// The program of the tests.
    pub suite: PathBuf,
    /// The program that these tests start, at the path where they expect it.
    pub app: PathBuf,
    /// What the names of the tests must contain. If it is there, nothing else is run.
    pub filter: Option<String>,
    /// The program of the kernel half that the tests do without.
    pub omit: Option<String>,
}

/// Everything but the kernel's modules.
pub struct Root {
    folder: PathBuf,
}

impl Root {
    /// Gather everything in a folder below `folder`.
    pub fn build(folder: &Path, ravelin: Option<&Path>, tests: &Tests) -> Result<Root> {
        let root = Root { folder: folder.join("root") };
        let _ = fs::remove_dir_all(&root.folder);
        for part in ["bin", "dev", "proc", "sys", "run", "tmp", "modules"] {
            fs::create_dir_all(root.folder.join(part))?;
        }
        fs::create_dir_all(root.folder.join("usr/bin"))?;
        if let Some(ravelin) = ravelin {
            root.stripped(ravelin, "usr/bin/ravelin")?;
        }
        for program in PROGRAMS {
            root.program(Path::new(program))?;
        }
        root.tests(tests)?;
        symlink("nc.openbsd", root.folder.join("usr/bin/nc"))?;
        symlink("/usr/bin/dash", root.folder.join("bin/sh"))?;
        root.python()?;
        let init = root.folder.join("init");
        fs::write(&init, INIT)?;
        ensure!(passes(Command::new("chmod").arg("755").arg(&init))?, "cannot make init a program");
        Ok(root)
    }

    /// The program of the tests at a place that `init.sh` knows, and what it starts at the place that it was built with.
    fn tests(&self, tests: &Tests) -> Result<()> {
        self.stripped(&tests.suite, "tests")?;
        self.program(&tests.app)?;
        fs::write(self.folder.join("filter"), tests.filter.as_deref().unwrap_or_default())?;
        fs::write(self.folder.join("omit"), tests.omit.as_deref().unwrap_or_default())?;
        Ok(())
    }

    /// A program of ours, without what debuggers want, and its libraries.
    fn stripped(&self, program: &Path, place: &str) -> Result<()> {
        let place = self.folder.join(place);
        fs::copy(program, &place).with_context(|| format!("copying {}", program.display()))?;
        ensure!(passes(Command::new("strip").arg(&place))?, "cannot strip {}", place.display());
        self.libraries(program)
    }

    fn put(&self, file: &Path) -> Result<()> {
        let place = self.folder.join(file.strip_prefix("/").unwrap_or(file));
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(file, &place).with_context(|| format!("copying {}", file.display())).map(drop)
    }

    fn program(&self, program: &Path) -> Result<()> {
        self.put(program)?;
        self.libraries(program)
    }

    /// What the loader would load for a program.
    fn libraries(&self, program: &Path) -> Result<()> {
        let output = Command::new("ldd").arg(program).output()?;
        for word in
            String::from_utf8_lossy(&output.stdout).split_whitespace().filter(|word| word.starts_with('/'))
        {
            self.put(Path::new(word.trim_end_matches(':')))?;
        }
        Ok(())
    }

    /// Python's library, with what it has compiled: an emulated processor takes long to do it again.
    fn python(&self) -> Result<()> {
        let program = "import sysconfig; print(sysconfig.get_paths()['stdlib'])";
        let output = Command::new("/usr/bin/python3").args(["-c", program]).output()?;
        let library = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        ensure!(library.starts_with("/usr"), "/usr/bin/python3 does not say where its library is");
        let place = self.folder.join(library.strip_prefix("/")?);
        fs::create_dir_all(&place)?;
        for entry in fs::read_dir(&library)? {
            let entry = entry?;
            if UNUSED.iter().any(|unused| entry.file_name() == *unused) {
                continue;
            }
            let copied = passes(Command::new("cp").arg("-aL").arg(entry.path()).arg(&place))?;
            ensure!(copied, "cannot copy {}", entry.path().display());
        }
        Ok(())
    }

    /// The archive for one kernel.
    pub fn with_modules(&self, kernel: &Kernel) -> Result<PathBuf> {
        let modules = self.folder.join("modules");
        fs::remove_dir_all(&modules)?;
        fs::create_dir_all(&modules)?;
        // depmod and modprobe look for lib/modules below a folder; some packages have it below usr.
        let base = self.folder.with_file_name("base");
        let _ = fs::remove_dir_all(&base);
        fs::create_dir_all(base.join("lib/modules"))?;
        symlink(&kernel.modules, base.join("lib/modules").join(&kernel.name))?;
        let listed = passes(Command::new("depmod").arg("-b").arg(&base).arg(&kernel.name))?;
        ensure!(listed, "depmod cannot read the modules");
        let mut order: Vec<String> = Vec::new();
        for module in MODULES {
            let mut command = Command::new("modprobe");
            let command = command.arg("-d").arg(&base).args(["-S", &kernel.name, "-D", module]);
            let output = command.output()?;
            ensure!(output.status.success(), "{} has no module {module}", kernel.name);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            for path in text.lines().filter_map(|line| line.strip_prefix("insmod ")) {
                let path = Path::new(path.trim());
                let file =
                    path.file_name().and_then(|name| name.to_str()).context("a module without a name")?;
                let plain = file.trim_end_matches(".xz");
                if order.iter().any(|known| known == plain) {
                    continue;
                }
                let content = match plain == file {
                    true => fs::read(path)?,
                    false => Command::new("xz").arg("-dc").arg(path).output()?.stdout,
                };
                fs::write(modules.join(plain), content)?;
                order.push(plain.to_owned());
            }
        }
        fs::write(modules.join("order"), order.join("\n") + "\n")?;
        fs::remove_dir_all(&base)?;
        let archive = self.folder.with_file_name("initrd");
        let pack = "find . | cpio --quiet -o -H newc -R 0:0 >\"$0\"";
        let packed = passes(Command::new("sh").args(["-c", pack]).arg(&archive).current_dir(&self.folder))?;
        ensure!(packed, "cpio cannot pack the guest's files");
        Ok(archive)
    }
}
