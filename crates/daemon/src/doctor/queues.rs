//! Programs that hold queues of netfilter (NFQUEUE). Where a rule of the firewall queues what this host's programs
//! send, the hooks that follow the sender run in the queue's program, when it gives its verdict. A kernel that takes a
//! program at its security hooks says who sends before that, at the call; on others this matters (ravelin-firewall(7)).

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};

use api::{Check, CheckState};
use sockmon::OptionHook;

/// The queues of the calling thread's network namespace.
const QUEUES: &str = "/proc/thread-self/net/netfilter/nfnetlink_queue";
/// The most holders, and the most queues of one, that are named.
const TOLD: usize = 8;

/// The check that says who holds queues of netfilter.
pub(super) fn check() -> Check {
    let name = |pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some(name.trim_end().escape_debug().to_string())
    };
    check_of(fs::read_to_string(QUEUES), name, sockmon::option_hook)
}

/// `name` knows what the process of a number executes, if there is one; `hook` is asked only where it matters.
fn check_of(
    list: io::Result<String>,
    name: impl Fn(u32) -> Option<String>,
    hook: impl FnOnce() -> Option<OptionHook>,
) -> Check {
    let say = |state, found: String, remedy: Option<&str>| Check {
        name: "netfilter queues".to_owned(),
        state,
        found,
        remedy: remedy.map(str::to_owned),
    };
    let list = match list {
        Ok(list) => list,
        // The module that has queues is not loaded.
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => {
            return say(
                CheckState::Warn,
                format!("not looked at: {QUEUES}: {error}"),
                Some("run `ravelin doctor` as root"),
            );
        }
    };
    let mut holders: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (queue, port) in list.lines().filter_map(bound) {
        holders.entry(port).or_default().push(queue);
    }
    if holders.is_empty() {
        return say(CheckState::Ok, "no program holds one".to_owned(), None);
    }
    let told: Vec<String> = holders
        .iter()
        .take(TOLD)
        .map(|(port, queues)| {
            let numbers: Vec<String> = queues.iter().take(TOLD).map(u32::to_string).collect();
            let more = if queues.len() > TOLD { ", ..." } else { "" };
            let word = if queues.len() == 1 { "queue" } else { "queues" };
            let who = match name(*port) {
                // A program of another PID namespace has its own number for itself, or any that it likes.
                Some(name) => {
                    format!("netlink port {port} (process {name}, if the number is one of this host's)")
                }
                None => format!("netlink port {port}"),
            };
            format!("{who} holds {word} {}{more}", numbers.join(", "))
        })
        .collect();
    let more = match holders.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    // The same kernels take a program at the hook of sendmsg.
    if let Some(hook) = hook() {
        let (told, but) = (
            told.join("; "),
            match hook {
                OptionHook::Module => "",
                OptionHook::Return => ", except in calls that a kernel with preempt=full passes over",
            },
        );
        let found = format!("{told}{more}; what they give back is its sender's (of SCTP not always){but}");
        return say(CheckState::Ok, found, None);
    }
    say(
        CheckState::Warn,
        format!(
            "{}{more}; while a rule at `output` or `postrouting` queues packets there, a socket that changes hands can count as that \
             program's",
            told.join("; ")
        ),
        Some(
            "queue at `input` or `forward` instead, or look at packets with tc; a rule that must stay at `output` or `postrouting` should \
             match nothing that a protected program sends (ravelin-firewall(7))",
        ),
    )
}

/// A line of the list: the queue's number, the netlink port of its holder (by custom its process), and counters.
fn bound(line: &str) -> Option<(u32, u32)> {
    let mut words = line.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of queues as `seq_show` of net/netfilter/nfnetlink_queue.c prints it.
    const LIST: &str = "    0    812     3 2 65531     0     0      117  1\n\
                        \u{20}   1    812     0 2 65531     0     0        0  1\n\
                        \u{20}  77 4294963201     0 1     0     4     0       12  1\n";

    fn named(pid: u32) -> Option<String> {
        (pid == 812).then(|| "suricata".to_owned())
    }

    #[test]
    fn who_holds_queues_is_named() {
        let check = check_of(Ok(LIST.to_owned()), named, || None);
        assert_eq!(check.state, CheckState::Warn);
        assert!(
            check.found.starts_with(
                "netlink port 812 (process suricata, if the number is one of this host's) holds queues 0, 1; netlink port \
                 4294963201 holds queue 77; while a rule"
            ),
            "{}",
            check.found
        );
        assert!(check.remedy.is_some_and(|remedy| remedy.contains("`forward`")));
        for (hook, end) in [(OptionHook::Module, "(of SCTP not always)"), (OptionHook::Return, "passes over")]
        {
            let seen = check_of(Ok(LIST.to_owned()), named, || Some(hook));
            assert_eq!((seen.state, seen.remedy), (CheckState::Ok, None));
            assert!(seen.found.contains("what they give back is its sender's"), "{}", seen.found);
            assert!(seen.found.ends_with(end), "{}", seen.found);
        }
        let many: String = (1..=20).map(|n| format!("{n} {n} 0 2 65531 0 0 0 1\n")).collect();
        assert!(check_of(Ok(many), named, || None).found.contains("; and 12 more; while"));
    }

    #[test]
    fn without_queues_all_is_well() {
        let gone = || Err(io::Error::from(ErrorKind::NotFound));
        for list in [gone(), Ok(String::new()), Ok("no list\n\n".to_owned())] {
            let check = check_of(list, named, || None);
            assert_eq!((check.state, check.remedy), (CheckState::Ok, None), "{}", check.found);
        }
        let closed = check_of(Err(ErrorKind::PermissionDenied.into()), named, || None);
        assert!(
            closed.state == CheckState::Warn && closed.remedy.is_some_and(|remedy| remedy.contains("root"))
        );
    }
}
