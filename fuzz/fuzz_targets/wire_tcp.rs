//! TCP headers and options: accessors after the check never panic, options account for every octet they claim,
//! and setters change what they name and nothing else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::tcp::{Flags, HEADER_LEN, Tcp, TcpOption};

fuzz_target!(|bytes: &[u8]| {
    let Ok(view) = Tcp::new_checked(bytes) else { return };
    assert!((HEADER_LEN..=60).contains(&view.header_len()));
    assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    options(&view);

    let mut edited = bytes.to_vec();
    let mut edit = Tcp::new_checked(&mut edited[..]).expect("the same bytes");
    let (seq, flags, urgent) = (!view.seq(), Flags(!view.flags().0 & 0xfff), !view.urgent());
    edit.set_seq(seq);
    edit.set_flags(flags);
    edit.set_urgent(urgent);
    edit.set_checksum(!view.checksum());
    assert_eq!((edit.seq(), edit.flags(), edit.urgent()), (seq, flags, urgent));
    assert_eq!(edit.checksum(), !view.checksum());
    assert_eq!((edit.src_port(), edit.dst_port()), (view.src_port(), view.dst_port()));
    assert_eq!((edit.ack(), edit.window()), (view.ack(), view.window()));
    assert_eq!(edit.header_len(), view.header_len());
    assert_eq!(&edited[HEADER_LEN..], &bytes[HEADER_LEN..]);
});

fn options(view: &Tcp<&[u8]>) {
    let room = view.header_len() - HEADER_LEN;
    let mut used = 0;
    let mut ended = false;
    for option in view.options() {
        assert!(!ended, "nothing comes behind an error");
        used += match option {
            Ok(TcpOption::Nop) => 1,
            Ok(TcpOption::MaxSegment(_)) => 4,
            Ok(TcpOption::WindowScale(_)) => 3,
            Ok(TcpOption::SackPermitted) => 2,
            Ok(TcpOption::Timestamps { .. }) => 10,
            Ok(TcpOption::Sack(blocks)) => 2 + blocks.len(),
            Ok(TcpOption::Other { data, .. }) => 2 + data.len(),
            Err(_) => {
                ended = true;
                1
            }
        };
        assert!(used <= room, "options stay inside the header");
    }
}
