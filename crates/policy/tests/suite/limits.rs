//! Tests of `limit clear RATE;` and `limit accept RATE;`: what they come to, that they say nothing of protection, and
//! where they are shown.

use policy::{AppTable, Compiled, Names, compare, compile, differences, explain, format, parse};
use sadb::spd::{ClearLimits, Limit, Order};
use wire::Flow;

fn compiled(text: &str) -> Compiled {
    let parsed = parse("p", text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    compile(&parsed, &mut AppTable::new(), 1)
}

fn with(limits: &str) -> String {
    format!("application curl {{ network 0.0.0.0/0, ::/0 trusted; {limits} }}\n")
}

fn limits(text: &str) -> ClearLimits {
    let compiled = compiled(&with(text));
    compiled.spd.get(compiled.applications[0].id).unwrap().clear_limits()
}

#[test]
fn units_are_decimal_and_a_burst_is_a_tenth_of_a_second() {
    let octets = |rate, burst| ClearLimits { octets: Some(Limit { rate, burst }), packets: None };
    let packets = |rate, burst| ClearLimits { packets: Some(Limit { rate, burst }), octets: None };
    for (text, want) in [
        ("", ClearLimits::default()),
        ("limit clear 10 mbit/s;", octets(1_250_000, 125_000)),
        ("limit clear 10mbit/s;", octets(1_250_000, 125_000)),
        ("limit clear 64 kbit/s;", octets(8000, 16_384)),
        ("limit clear 64 kbit/s burst 8 kbit;", octets(8000, 1000)),
        ("limit clear 8 bit/s burst 8 bit;", octets(1, 1)),
        ("limit clear 1000 gbit/s;", octets(125_000_000_000, 12_500_000_000)),
        ("limit clear 5000 packets/s;", packets(5000, 500)),
        ("limit clear 5 packets/s;", packets(5, 16)),
        ("limit clear 5000 packets/s burst 200;", packets(5000, 200)),
        ("limit clear 5000 packets/s burst 200 packets;", packets(5000, 200)),
    ] {
        assert_eq!(limits(text), want, "{text}");
    }
    let both = limits("limit clear 8 kbit/s; limit clear 7 packets/s;");
    assert_eq!((both.octets.unwrap().rate, both.packets.unwrap().rate), (1000, 7));
}

#[test]
fn what_is_accepted_has_limits_of_its_own() {
    let policy = |text: &str| {
        let compiled = compiled(&with(text));
        let policy = compiled.spd.get(compiled.applications[0].id).unwrap();
        (policy.clear_limits(), policy.accept_limits())
    };
    let packets = |rate, burst| ClearLimits { packets: Some(Limit { rate, burst }), octets: None };
    let none = ClearLimits::default();
    assert_eq!(policy("limit clear 5000 packets/s;"), (packets(5000, 500), none));
    assert_eq!(policy("limit accept 50 packets/s burst 9;"), (none, packets(50, 9)));
    let all =
        "limit accept 8 kbit/s; limit clear 8 bit/s; limit accept 7 packets/s; limit clear 6 packets/s;";
    let (clear, accept) = policy(all);
    let rates = |limits: ClearLimits| (limits.octets.unwrap().rate, limits.packets.unwrap().rate);
    assert_eq!((rates(clear), rates(accept)), ((1, 6), (1000, 7)));
}

#[test]
fn what_is_written_is_what_is_read() {
    let text = "application curl {\n  network 192.0.2.0/24 trusted;\n\n  limit clear 1500 kbit/s burst 1 mbit;\n  limit clear 7 packets/s burst 9 packets;\n  limit accept 50 packets/s;\n}\n";
    let parsed = parse("p", text);
    let said: Vec<String> = parsed.blocks[0].limits.iter().map(|limit| limit.text()).collect();
    let want = [
        "limit clear 1500 kbit/s burst 1 mbit;",
        "limit clear 7 packets/s burst 9 packets;",
        "limit accept 50 packets/s;",
    ];
    assert_eq!(said, want);
    let loose = "application curl { network 192.0.2.0/24 trusted;\n\nlimit   clear 1500\tkbit/s burst 1 mbit; limit clear 7 packets/s\nburst 9 packets; limit\naccept  50 packets/s; }";
    assert_eq!(format(loose), text.replace("application curl {", "application curl\n{"));
    assert_eq!(parsed.summary().limits_of("curl"), said);
}

trait LimitsOf {
    fn limits_of(&self, name: &str) -> Vec<String>;
}

impl LimitsOf for policy::Summary {
    fn limits_of(&self, name: &str) -> Vec<String> {
        self.applications.iter().find(|a| a.names == [name]).unwrap().limits.clone()
    }
}

#[test]
fn a_limit_is_no_strictness() {
    for limit in ["limit clear 8 bit/s;", "limit accept 8 bit/s;"] {
        let text = format!("{}application wget {{ network 0.0.0.0/0, ::/0 trusted; }}\n", with(limit));
        let compiled = compiled(&text);
        let [curl, wget] = ["curl", "wget"].map(|name| compiled.find(name).unwrap().id);
        let (a, b) = (compiled.spd.get(curl).unwrap(), compiled.spd.get(wget).unwrap());
        assert_eq!(compare(a, b), Order::Same);
        assert_eq!(differences(a, b), []);
        assert_ne!(a, b);
    }
}

#[test]
fn a_limit_stays_with_names_and_with_a_block_that_breaks() {
    let good = with("network host.example trusted; limit clear 7 packets/s; limit accept 5 packets/s;");
    let mut table = AppTable::new();
    let mut before = compile(&parse("p", &good), &mut table, 1);
    before.resolve(&Names::default());
    let of = |compiled: &Compiled| {
        let app = compiled.find("curl").unwrap();
        let policy = compiled.spd.get(app.id).unwrap();
        (policy.clear_limits(), policy.accept_limits(), app.limits.clone())
    };
    assert_eq!(of(&before).0.packets, Some(Limit { rate: 7, burst: 16 }));
    assert_eq!(of(&before).1.packets, Some(Limit { rate: 5, burst: 16 }));
    let mut after = compile(&parse("p", &with("limit clear 8 oxen/s;")), &mut table, 2);
    assert_eq!(after.carry_over(&before), ["curl"]);
    assert_eq!(of(&after), of(&before));
}

#[test]
fn explain_says_so_where_a_flow_can_be_in_clear() {
    let text = "application curl {\n  network 192.0.2.0/24 trusted;\n  network 198.51.100.0/24 protected P;\n  limit clear 10 mbit/s;\n  limit accept 50 packets/s;\n\
                  protection P { remoteport=1 encryption optional; encryption mandatory; }\n}\n";
    let compiled = compiled(text);
    let notes = |to: &str, port| {
        let remote = to.parse().unwrap();
        let local = std::net::Ipv4Addr::UNSPECIFIED.into();
        let flow = Flow { opaque: false, local, remote, local_port: 0, remote_port: port, protocol: 6 };
        explain(&compiled, "curl", &flow).notes.join("\n")
    };
    for (to, port, said) in [("192.0.2.1", 9, true), ("198.51.100.1", 1, true), ("198.51.100.1", 2, false)] {
        assert_eq!(notes(to, port).contains("line 4: `limit clear 10 mbit/s;`"), said, "{to}:{port}");
        let accept = "line 5: `limit accept 50 packets/s;` what its sockets accept in clear of each source";
        assert_eq!(notes(to, port).contains(accept), said, "{to}:{port}");
    }
    assert!(
        !explain(
            &compiled,
            "wget",
            &Flow {
                opaque: false,
                local: std::net::Ipv4Addr::UNSPECIFIED.into(),
                remote: "192.0.2.1".parse().unwrap(),
                local_port: 0,
                remote_port: 9,
                protocol: 6
            }
        )
        .notes
        .join("")
        .contains("limit")
    );
}

#[test]
fn the_papers_language_has_none() {
    let parsed = parse(
        "p",
        &format!(
            "syntax 2005;\n{}",
            "application curl { network 192.0.2.0/24 trusted; limit clear 8 bit/s; }"
        ),
    );
    assert!(parsed.diagnostics.iter().any(|d| d.code.as_str() == "RVL-P114"), "{}", parsed.render(false));
    // A program of this name is one.
    let parsed = parse("p", "application limit { network 0.0.0.0/0, ::/0 trusted; }\n");
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
}
