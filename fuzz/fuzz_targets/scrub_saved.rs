//! What a scrubber takes over from another: whatever the octets are, a refusal or a scrubber that works; what it then saves, another
//! takes over whole.
//!
//! Octets without the head of a state are records for a standby, one behind the other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scrub::{Config, Feed, Profile, Record, Saved, Scrubber};
use std::time::Duration;
use wire::Time;

fuzz_target!(|bytes: &[u8]| {
    let now = Time::from_secs(1000);
    let mut config = Config::new(Profile::Standard);
    config.feed = Feed::Octets;
    config.store.memory = 1 << 16;
    let mut first = Scrubber::new(config.clone(), [1; 16]);
    match Saved::check(bytes) {
        Ok(saved) => {
            first.restore(now, &saved, |_| true);
        }
        Err(_) => {
            let mut rest = bytes;
            while let Ok((record, behind)) = Record::read(rest) {
                first.apply(now, &record);
                let mut again = Vec::new();
                record.write(&mut again);
                assert_eq!(Record::read(&again), Ok((record, [].as_slice())));
                rest = behind;
            }
        }
    }
    let mut octets = Vec::new();
    first.save(now, &mut octets);
    let saved = Saved::check(&octets).expect("what a scrubber saves is whole");
    // How octets lie in chunks is not handed over, and may take more room.
    config.store.memory <<= 8;
    let mut second = Scrubber::new(config, [2; 16]);
    second.restore(now, &saved, |_| true);
    assert_eq!(first.connections().len(), second.connections().len());
    first.tell_all();
    while let Some(record) = first.poll_news(now) {
        second.apply(now, &record);
    }
    for hours in 0..4 {
        first.expire(now + Duration::from_secs(hours * 3600));
        while first.poll_emitted().is_some() {}
    }
});
