//! What runs under a program that watches memory: every function, with buffers that end where their octets end.

use cipher_loader::Form;
use cipher_loader::subject::Subject;

use super::conduct::every_call;
use crate::calls::{LENIENT, Lengths, Octets, Verdict, open, seal, set};

pub(super) fn memory(subject: &Subject<'_>) -> Verdict {
    for form in [LENIENT, Form { apart: true, ..LENIENT }, Form { plain: true, ..LENIENT }] {
        let cipher = subject.in_form(form);
        let lengths = Lengths::of(&cipher);
        let mut octets = Octets::new(11);
        for _ in 0..3 {
            let secret = octets.take(lengths.key).into_boxed_slice();
            let key = set(&cipher, &secret)?;
            every_call(&key, lengths, &mut || Ok(()))?;
            let (nonce, plain) = (octets.array(), octets.take(5 * lengths.unit));
            let (mut data, mut tag) = (plain.clone().into_boxed_slice(), vec![0; lengths.tag]);
            seal(&key, &nonce, &mut data, &mut tag)?;
            // Comparing uses every octet: one that nobody wrote is noticed.
            let unchanged = *data == *plain;
            let opens = open(&key, &nonce, &mut data, &mut tag)?;
            if unchanged || !opens || *data != *plain {
                return Err("what was encrypted is not decrypted again".to_owned());
            }
        }
    }
    Ok("every function, with buffers that end where their octets end".to_owned())
}
