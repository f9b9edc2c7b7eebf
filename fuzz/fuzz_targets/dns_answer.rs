//! Answers of the DNS that programs receive: whatever the octets, no panic, only addresses of the family that was asked for, of the
//! name that is wanted, and never more of them kept than there is room for.
#![no_main]

use config::NameLimits;
use daemon::names::answer::{observed, usable};
use daemon::names::{Book, MAX_ADDRESSES};
use libfuzzer_sys::fuzz_target;
use wire::Time;

fuzz_target!(|bytes: &[u8]| {
    let mut asked = None;
    let Some((name, list)) = observed(bytes, |name| {
        asked = Some(name.to_owned());
        true
    }) else {
        return;
    };
    assert_eq!(asked.as_deref(), Some(name.as_str()));
    assert!(list.len() <= 4096 && list.windows(2).all(|two| two[0].0.is_ipv4() == two[1].0.is_ipv4()));
    assert_eq!(observed(bytes, |_| false), None);
    let mut book = Book::new(NameLimits::default());
    book.watch(Time(0), [name.clone()]);
    book.observe(Time(1), &name, &list);
    let entry = &book.entries()[&name];
    assert!(entry.addresses.len() <= MAX_ADDRESSES);
    assert!(entry.addresses.keys().all(|addr| usable(*addr)));
    for addr in entry.addresses.keys() {
        assert_eq!(book.names(Time(1)).source(&name, *addr), Some(policy::Source::Observed));
    }
});
