//! A key that the wide unit makes leaves nothing of itself on the stack.

#[path = "../../crypto-std/tests/packet/mod.rs"]
mod packet;
#[path = "../../crypto-std/tests/packet/stack.rs"]
mod stack;
mod widths;

use crypto::Registry;
use widths::widths;

#[test]
fn a_new_key_leaves_nothing_of_itself_on_the_stack() {
    stack::sees();
    for wide in widths() {
        let registry = Registry::new().with_tested(wide).unwrap();
        stack::keys_leave_nothing(registry, &["wide"]);
    }
}
