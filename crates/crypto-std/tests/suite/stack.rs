//! A key that is made leaves nothing of itself on the stack.

use crate::stack_words;

#[test]
fn a_new_key_leaves_nothing_of_itself_on_the_stack() {
    stack_words::sees();
    stack_words::keys_leave_nothing(crypto_std::registry().unwrap(), &["ring", "rustcrypto"]);
}
