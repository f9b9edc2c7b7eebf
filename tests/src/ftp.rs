//! vsftpd, unmodified, with files that everybody may fetch: passive mode, no encryption of its own.

use std::fs;
use std::path::Path;

use lab::{Host, Program, Running, Transport};

use crate::{PATIENCE, program};

/// The TCP port of the server.
pub const PORT: u16 = 21;

/// A configuration that offers `data` to everybody. `empty` is a folder with nothing in it.
pub fn configuration(data: &Path, empty: &Path) -> String {
    format!(
        "listen=YES\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nwrite_enable=NO\n\
         anon_root={}\nsecure_chroot_dir={}\npasv_enable=YES\nport_enable=NO\nxferlog_enable=NO\n\
         isolate=NO\nisolate_network=NO\nseccomp_sandbox=NO\n",
        data.display(),
        empty.display(),
    )
}

/// Start it on a host with one file to offer; everything is written below `folder`.
///
/// # Panics
/// If the folder cannot be written or the server does not listen.
pub fn serve(host: &Host, folder: &Path, file: &str, octets: &[u8]) -> Running {
    let (data, empty, path) = (folder.join("data"), folder.join("empty"), folder.join("vsftpd.conf"));
    for folder in [&data, &empty] {
        fs::create_dir_all(folder).expect("a folder can be made");
    }
    fs::write(data.join(file), octets).expect("a file can be written");
    fs::write(&path, configuration(&data, &empty)).expect("a configuration can be written");
    let mut server = host.spawn(Program::new(program("vsftpd")).arg(&path)).expect("vsftpd starts");
    host.wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE).expect("vsftpd listens");
    server
}
