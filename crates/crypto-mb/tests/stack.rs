//! A key that the wide unit makes leaves nothing of itself on the stack.

#[path = "../../crypto-std/tests/packet/mod.rs"]
mod packet;
#[path = "../../crypto-std/tests/packet/stack.rs"]
mod stack;

use crypto::Registry;
use crypto_mb::Wide;

#[test]
fn a_new_key_leaves_nothing_of_itself_on_the_stack() {
    stack::sees();
    for wide in Wide::detect_all() {
        let registry = Registry::new().with_tested(wide).unwrap();
        stack::keys_leave_nothing(registry, &["wide"]);
    }
}
