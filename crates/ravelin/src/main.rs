//! The command of the operator, `ravelin`.
//!
//! What enters: arguments, files, the answers of a daemon's control socket. What leaves: text for people, or with
//! `--json` the documents of the `api` room; and an exit status: 0 done, 1 failed or refused, 2 bad input or usage,
//! 3 no daemon answers, 4 `policy plan` found changes, 5 not allowed (docs/man/ravelin.1.md).
#![forbid(unsafe_code)]

mod catalogue;
mod cli;
mod client;
mod cmd;
mod color;
mod complete;
mod exit;
mod lsp;
mod output;

use std::process::ExitCode;

/// Keys come by, in buffers of libraries too.
#[global_allocator]
static MEMORY: netio::secret::Wiping = netio::secret::Wiping;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // A library of a cipher is tried or checked here, in a process that has done nothing else.
    if arguments.get(1).is_some_and(|argument| argument == documents::ciphers::TRIAL_COMMAND) {
        cipher_loader::trial::child_main_with(cmd::cipher::child_task);
    }
    // A library of a component is tried here, in the same way.
    if arguments.get(1).is_some_and(|argument| argument == qos_loader::trial::COMMAND) {
        qos_loader::trial::child_main();
    }
    // Started under valgrind only.
    if arguments.get(1).is_some_and(|argument| argument == cmd::cipher::UNDEFINED) {
        return cmd::cipher::undefined_main(arguments.get(2));
    }
    if arguments.get(1).is_some_and(|argument| argument == documents::ciphers::WORKER_COMMAND) {
        cipher_worker::child_main();
    }
    complete::answer();
    exit::json_is_asked(&arguments);
    if let Err(refused) = cmd::sa::no_key_in_arguments(arguments.iter().skip(1).cloned()) {
        return exit::report(&refused);
    }
    color::choose(&arguments);
    let command = match cli::parse(&arguments) {
        Ok(command) => command,
        Err(usage) => return exit::report_usage(&usage),
    };
    match command.execute() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}
