use std::sync::Arc;

use api::{CipherCheck, CtCheck, CtControl};

use super::*;
use crate::battery::{Profile, SEED, stats};
use crate::controls::TableAes;

fn page() -> Page {
    Page {
        cipher: "toy".to_owned(),
        provenance: vec![("Source".to_owned(), "https://example.org/<a>&'\"\u{7}".to_owned())],
        check: Some(CipherChecked {
            cipher: "toy".to_owned(),
            ok: false,
            checks: vec![CipherCheck {
                name: "inverse".to_owned(),
                ok: false,
                detail: "<script>alert(1)</script>".to_owned(),
            }],
            left_out: Vec::new(),
        }),
        stats: None,
        ct: Some(CipherCt {
            cipher: "toy".to_owned(),
            ok: false,
            void: true,
            statement: "it proves nothing".to_owned(),
            code_path: "aes avx2".to_owned(),
            checks: vec![CtCheck {
                method: "valgrind".to_owned(),
                ok: true,
                left_out: false,
                t: None,
                detail: "0 branches".to_owned(),
            }],
            controls: vec![CtControl {
                name: "AES with a table".to_owned(),
                method: "valgrind".to_owned(),
                must_be_flagged: true,
                ok: false,
                detail: String::new(),
            }],
        }),
    }
}

#[test]
fn words_of_others_are_escaped() {
    let html = page().html();
    assert!(!html.contains("<script"));
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(html.contains("https://example.org/&lt;a&gt;&amp;&#39;&quot;?"));
}

#[test]
fn verdicts_are_said_and_missing_parts_too() {
    let html = page().html();
    assert!(html.contains("<td>check</td><td class=\"bad\">did NOT pass</td>"));
    assert!(html.contains("<td>stats</td><td class=\"out\">not part of this report</td>"));
    assert!(html.contains("<td>ct</td><td class=\"bad\">VOID"));
    assert!(html.contains("Passing proves nothing about strength"));
    assert!(html.contains("NOT as it must"));
}

/// Every element that begins ends, and in order: what a browser needs to show the page as it was meant.
fn well_formed(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split(' ').next().unwrap();
        match tag {
            tag if tag.starts_with('!') || tag.ends_with('/') || name == "meta" => {}
            tag if tag.starts_with('/') => assert_eq!(open.pop(), Some(name)),
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let mut page = page();
    page.stats = Some(stats(Arc::new(TableAes::new(3)), Profile::QUICK, SEED).unwrap());
    let html = page.html();
    well_formed(&html);
    assert_eq!(html.matches("<svg").count(), 5);
    assert!(
        html.contains("AES cut to 3 rounds") && html.contains("Seed") && html.contains("243f6a8885a308d3")
    );
    for outside in ["src=", "href=", "url(", "@import", "NaN", "inf"] {
        assert!(!html.contains(outside), "{outside}");
    }
    well_formed(&Page::default().html());
}

#[test]
fn compilers_are_found() {
    let mut library = vec![0x7f, b'E', b'L', b'F', 0, 1, 2, 0xff];
    for text in
        ["GCC: (Debian 12.2.0-14) 12.2.0", "rustc version 1.95.0 (abc)", "GCC: (Debian 12.2.0-14) 12.2.0"]
    {
        library.extend_from_slice(text.as_bytes());
        library.push(0);
    }
    assert_eq!(compilers(&library), ["GCC: (Debian 12.2.0-14) 12.2.0", "rustc version 1.95.0 (abc)"]);
    assert!(compilers(b"no such words \x00").is_empty());
}
