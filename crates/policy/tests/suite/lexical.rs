//! Where words end and comments start.

use policy::{Code, parse};

fn sound(text: &str) -> bool {
    !parse("p", text).has_errors()
}

#[test]
fn comments_may_touch_words() {
    assert!(sound("application/*a*/ssh{network/*b*/10.0.0.0/8/*c*/trusted/*d*/;}/**/"));
    assert!(sound("application ssh{network 10.0.0.0/8 trusted;#x\n}//y"));
    assert!(sound(
        "# application\n// application\n/* application */ application ssh { network ::/0 trusted; }"
    ));
}

#[test]
fn a_double_slash_inside_a_path_is_an_error_and_not_a_comment() {
    let parsed = parse("p", "application /usr//bin/ssh\n{ network ::/0 trusted; }");
    assert_eq!(parsed.diagnostics[0].code, Code::BadName);
}

#[test]
fn layout_is_free() {
    assert!(sound("application\nssh\n,\nscp\n{\nnetwork\n10.0.0.1\n-\n10.0.0.9\ntrusted\n;\n}"));
    assert!(sound("\u{feff}application ssh{network 10.0.0.0 / 8 trusted;network ::1-::2 trusted;}\r\n"));
    assert!(sound(
        "application ssh{network ::/0 protected P;protection P{\
                   localport\n=\nany remoteport=\t1-5 encryption\nmandatory;}}"
    ));
}

#[test]
fn keywords_may_be_names() {
    let text = "application application, network, \"protection\" { network trusted trusted;
                network optional protected protected; protection protected { localport=any remoteport=any
                encryption mandatory; } }";
    let parsed = parse("p", text);
    assert!(!parsed.has_errors(), "{}", parsed.render(false));
    assert_eq!(parsed.blocks[0].subjects.len(), 3);
}

#[test]
fn names_and_paths() {
    for (name, good) in [
        ("ssh", true),
        ("/usr/sbin/sshd", true),
        ("g++", true),
        ("python3.11", true),
        ("\"my program\"", true),
        ("\"a\\\"b\\\\c\"", true),
        ("\"gr\u{f6}\u{df}e\"", true),
        ("\"/opt/My App/bin/app\"", true),
        ("usr/bin/ssh", false),
        ("/", false),
        (".", false),
        ("/usr/bin/", false),
        ("\"/usr/bin/\"", false),
        ("\"a\u{7}b\"", false),
        ("\"\"", false),
    ] {
        assert_eq!(sound(&format!("application {name} {{ network ::/0 trusted; }}")), good, "{name}");
    }
}

#[test]
fn every_network_is_written_as_two_prefixes() {
    let parsed = parse("f", "application ssh { network any trusted; }");
    let errors: Vec<_> = parsed.diagnostics.iter().filter(|d| d.is_error()).collect();
    assert_eq!(errors.len(), 1);
    let help = &errors[0].help;
    assert!(help.contains("0.0.0.0/0") && help.contains("::/0"), "{help}");
}
