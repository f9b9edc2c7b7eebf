//! A key that is made leaves nothing of itself on the stack.

mod packet;
#[path = "packet/stack.rs"]
mod stack;

#[test]
fn a_new_key_leaves_nothing_of_itself_on_the_stack() {
    stack::sees();
    stack::keys_leave_nothing(crypto_std::registry().unwrap(), &["ring", "rustcrypto"]);
}
