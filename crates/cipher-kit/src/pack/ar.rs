//! The archive format of Debian packages (deb(5), ar): a magic word, and members with headers of 60 octets.

/// The archive of these members, always alike.
pub fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", content.len());
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(content);
        if content.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_begin_at_even_places() {
        let octets = archive(&[("a", b"1"), ("b", b"22")]);
        assert_eq!(octets.len(), 8 + 60 + 2 + 60 + 2);
        assert_eq!(&octets[8..12], b"a   ");
        assert_eq!(&octets[66..70], b"`\n1\n");
    }
}
