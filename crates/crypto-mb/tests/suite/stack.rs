//! A key that the wide unit makes leaves nothing of itself on the stack.

use crate::stack_words;
use crate::widths;

use crypto::Registry;
use widths::widths;

#[test]
fn a_new_key_leaves_nothing_of_itself_on_the_stack() {
    stack_words::sees();
    for wide in widths() {
        let registry = Registry::new().with_tested(wide).unwrap();
        stack_words::keys_leave_nothing(registry, &["wide"]);
    }
}
