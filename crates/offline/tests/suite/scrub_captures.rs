//! The captures that were once read or treated wrongly, as they are: what became of each stands here in a table.

use crate::scrub_kit::{read, scrub_with};

use api::ScrubSummary;
use config::scrub_text::prefix;
use lab::shared;
use offline::scrub::{Profile, Settings};

fn capture(name: &str) -> Option<Vec<u8>> {
    let folder = shared("captures/scrub-defects")?;
    Some(std::fs::read(folder.join(format!("{name}.pcap"))).expect("a capture of the set"))
}

fn scrubbed(capture: &[u8], settings: Settings) -> (Vec<Vec<u8>>, ScrubSummary) {
    let (out, summary) = scrub_with(capture, settings).expect("a capture");
    (read(&out).into_iter().map(|frame| frame.data).collect(), summary)
}

/// Two texts at the same sequence numbers, one of them behind something: one text is left, in each profile.
#[test]
fn of_two_texts_one_is_left() {
    let names = [
        "88a8",
        "9100",
        "9200",
        "ah4",
        "ah4_strict",
        "ah6",
        "ip6_nh135",
        "ip6_nh139",
        "ip6_nh140",
        "ip6_nh253",
        "ip6_nh254",
        "ip6_nh43",
        "ip6_nh60",
        "llc",
        "mpls",
        "plain",
        "pppoe",
        "pppoe_iponly",
        "snap",
        "vlan1",
        "vlan3",
    ];
    for name in names {
        let Some(capture) = capture(&format!("enc_{name}")) else { return };
        let all = read(&capture);
        let texts = |frames: &[Vec<u8>]| {
            let mut texts: Vec<Vec<u8>> = frames
                .iter()
                .filter(|frame| frame.windows(4).any(|at| at == 1001_u32.to_be_bytes()))
                .filter_map(|frame| frame.get(frame.len() - 8..).map(<[u8]>::to_vec))
                .filter(|text| text.iter().all(u8::is_ascii_alphanumeric))
                .collect();
            texts.sort();
            texts.dedup();
            texts
        };
        let before: Vec<Vec<u8>> = all.into_iter().map(|frame| frame.data).collect();
        assert_eq!(texts(&before).len(), 2, "{name} holds two texts");
        for profile in [Profile::Minimal, Profile::Standard, Profile::Strict] {
            let (after, summary) = scrubbed(&capture, Settings::new(profile));
            assert_eq!(texts(&after).len(), 1, "{name} {profile:?}: {summary:?}");
        }
    }
}

/// Honest traffic that a packet was dropped of.
#[test]
fn honest_captures_stay_whole() {
    let offload = ["ip_csum_zero_offload", "tso_len0_offload"];
    for (name, inside) in [
        ("dhcp_discover", None),
        ("gap_one_lost", None),
        ("ip_csum_zero_offload", None),
        ("tso_len0_offload", None),
        ("loopback_udp", None),
        ("ptb_big_from_middle_router", None),
        ("ptb_big_from_middle_router", Some("192.0.2.0/24")),
        ("ptb_big_middle_router_inside", Some("192.0.2.0/24")),
        ("ptb_big_inside_server", Some("198.51.100.0/24")),
        ("ptb_big_to_server", None),
        ("synack_same_isn_other_mss", None),
        ("tfo_accepted", None),
        ("timewait_reuse_higher_isn", None),
        ("ts_echo_unsent", None),
        ("two_mptcp_options", None),
    ] {
        let Some(capture) = capture(&format!("craft_{name}")) else { return };
        let mut settings = Settings::new(Profile::Standard);
        settings.offload = offload.contains(&name);
        settings.inside = inside.map(|text| prefix(text).expect("a prefix")).into_iter().collect();
        let (out, summary) = scrubbed(&capture, settings);
        assert_eq!((summary.dropped, out.len()), (0, read(&capture).len()), "{name}: {summary:?}");
    }
}
