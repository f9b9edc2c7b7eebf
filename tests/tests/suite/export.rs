//! `ravelin sa export --wireshark`: tshark decrypts what an eavesdropper took from the wire, the daemon says who asked, and no key
//! appears anywhere else.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use lab::{CaptureOptions, Program, Side};
use tests::{PATIENCE, Scratch, binary, program, programs, protected_rig};

const PORT: u16 = 7070;

/// What the UDP payloads are in a capture, as tshark decrypts it with the keys in this home.
fn payloads(capture: &Path, home: &Path) -> String {
    let mut tshark = Command::new(program("tshark"));
    tshark.args(["-n", "-T", "fields", "-e", "udp.payload", "-e", "esp.contained_data"]);
    tshark.args(["-o", "esp.enable_encryption_decode:TRUE", "-r"]).arg(capture).env("HOME", home);
    let done = tshark.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let fault = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!fault.contains("esp_sa"), "tshark does not like the file: {fault}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn tshark_decrypts_a_live_capture_with_the_exported_keys() {
    let python = program("python3");
    let rig = protected_rig("rvl-export", false, &[&python]).unwrap();
    let echo = Program::new(&python).args(["-c", programs::UDP_ECHO, &PORT.to_string()]);
    let echo = rig.lab.bob().spawn(echo).unwrap();
    echo.wait_for_output("ready", PATIENCE).unwrap();
    let instance = rig.instance(Side::Alice);
    let monitor = Program::new(binary()).args(["sa", "monitor", "--instance", &instance]);
    let monitor = rig.lab.alice().spawn(monitor).unwrap();
    monitor.wait_for_output("ready", PATIENCE).unwrap();
    let wire = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
    let secret = "what nobody else may read";
    let say = format!(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(4)\n\
         s.sendto(b\"{secret}\", (\"{}\", {PORT}))\nprint(s.recv(100).decode())",
        Side::Bob.v4()
    );
    let said = rig.lab.alice().run_program(Program::new(&python).args(["-c", &say]), PATIENCE).unwrap();
    assert_eq!(said.out().trim(), secret, "{}", said.err());
    let home = Scratch::new("export");
    let file = home.join("wire.pcap");
    wire.finish().unwrap().write_pcap(&file).unwrap();
    let hex: String = secret.bytes().map(|octet| format!("{octet:02x}")).collect();
    assert!(!payloads(&file, &home).contains(&hex), "readable without the keys");

    // Not without saying that keys are meant, neither here nor at the socket.
    let refused = rig.command(Side::Alice, &["sa", "export", "--wireshark"], "").unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.err().contains("--show-keys") && refused.out().is_empty(), "{}", refused.err());
    let socket = format!("/run/ravelin/{instance}/control.sock");
    let get = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
               s.sendall(b'GET /v1/export/wireshark HTTP/1.1\\r\\nHost: r\\r\\nConnection: close\\r\\n\\r\\n')\n\
               print(s.makefile().read())";
    let bare =
        rig.lab.alice().run_program(Program::new(&python).args(["-c", get, &socket]), PATIENCE).unwrap();
    assert!(
        bare.out().starts_with("HTTP/1.1 400") && bare.out().contains("show_keys=true"),
        "{}",
        bare.out()
    );

    let folder = home.join(".config/wireshark");
    std::fs::create_dir_all(&folder).unwrap();
    let table = folder.join("esp_sa");
    std::fs::write(&table, "an older one, longer than what comes".repeat(99)).unwrap();
    let path = table.display().to_string();
    // What is there already may be somebody else's, who would then read the keys.
    let args = ["sa", "export", "--wireshark", "--show-keys", "-w", &path];
    let refused = rig.command(Side::Alice, &args, "").unwrap();
    assert!(!refused.status.success() && refused.err().contains("is there already"), "{}", refused.err());
    assert!(std::fs::read_to_string(&table).unwrap().starts_with("an older one"));
    std::fs::remove_file(&table).unwrap();
    rig.ravelin(Side::Alice, &args, "").unwrap();
    assert_eq!(std::fs::metadata(&table).unwrap().permissions().mode() & 0o777, 0o600);
    let rows = std::fs::read_to_string(&table).unwrap();
    // Two that it knows, both ways; two in a comment, for it knows no ChaCha20-Poly1305.
    assert_eq!(rows.lines().filter(|row| row.starts_with("\"IPv4\"")).count(), 2);
    assert_eq!(rows.matches("Wireshark has no word for chacha20poly1305").count(), 2);
    assert_eq!(rows.lines().count(), 4);
    let opened = payloads(&file, &home);
    assert_eq!(opened.lines().filter(|line| line.contains(&hex)).count(), 2, "there and back: {opened}");

    // One association alone.
    let first = rows.lines().find(|row| row.starts_with('"')).unwrap();
    let spi = first.split('"').nth(7).unwrap().to_owned();
    let args = ["sa", "export", "--wireshark", "--show-keys", "--spi", &spi, "-w", "-"];
    let one = rig.ravelin(Side::Alice, &args, "").unwrap();
    assert_eq!(one.trim_end(), first);
    let args = ["sa", "export", "--wireshark", "--show-keys", "--spi", "0xffffffff"];
    let none = rig.command(Side::Alice, &args, "").unwrap();
    assert_eq!((none.status.code(), none.out()), (Some(1), String::new()), "{}", none.err());

    // Who asked is on record; the keys are not.
    monitor.wait_for_output("keys_exported", PATIENCE).unwrap();
    let (events, log) = (monitor.output(), rig.daemon(Side::Alice).unwrap().output());
    for trace in [&events, &log] {
        assert!(trace.contains("keys_exported") && trace.contains(&spi) && trace.contains("uid"), "{trace}");
    }
    assert!(
        !events.contains("\"uid\":1") && events.contains("\"uid\":0") && events.contains("\"pid\":"),
        "{events}"
    );
    let list = rig.ravelin(Side::Alice, &["sa", "list", "--json"], "").unwrap();
    for row in rows.lines().filter(|row| row.starts_with('"')) {
        let key = row.split('"').nth(11).unwrap().trim_start_matches("0x");
        assert_eq!(key.len(), 40);
        for trace in [&events, &log, &list] {
            assert!(!trace.contains(key) && !trace.contains(&key[..16]), "a key is in a trace");
        }
    }
}
