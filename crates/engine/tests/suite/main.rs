//! The tests of `engine`, one program: each module is about one kind of truth.

mod address_profiles;
mod aggregate;
mod audit;
#[path = "../../../ipsec/tests/suite/support/auth.rs"]
mod auth;
mod behind;
mod bundle;
mod bundle_queued;
mod bursts;
mod classes;
mod custom;
mod entries;
#[path = "../../../ipsec/tests/suite/support/faulty.rs"]
mod faulty;
mod forwarded;
mod fragmentation;
mod hold;
mod inbound;
mod inbound_queued;
mod outbound;
mod pair;
mod parallel;
mod peer;
mod pmtu;
mod probes;
mod queued;
mod quotations;
mod quoted;
mod reserved;
mod routed;
mod rules;
mod scrubbed;
mod segments;
mod sliced;
mod support;
mod terms;
mod too_big;
mod unit_failed;
mod units;
mod users;
