//! A key that is made leaves nothing of itself on the stack.

use crypto::Provider;

use crate::custom::ciphers::custom_providers;
use crate::stack_words;

#[test]
fn a_new_key_leaves_nothing_of_itself_on_the_stack() {
    stack_words::sees();
    stack_words::keys_leave_nothing(crypto_std::registry().unwrap(), &["ring", "rustcrypto"]);
    for (provider, suites) in custom_providers() {
        let name = provider.name();
        let registry = crypto_std::registry().unwrap().with_suites(suites).with(provider);
        stack_words::keys_leave_nothing(registry, &[name]);
    }
}
