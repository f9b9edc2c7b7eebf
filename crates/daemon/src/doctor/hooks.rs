//! Whether this kernel takes programs of ours at its security hooks. They say at the call who sends, and keep sessions of L2TP from programs
//! of policy; the hooks of packets, which every kernel has, see both too late (docs/design/0002, who sends).

use api::{Check, CheckState};
use sockmon::OptionHook;

/// The check; it takes root.
pub(super) fn check() -> Option<Check> {
    rustix::process::geteuid().is_root().then(|| check_of(sockmon::option_hook()))
}

fn check_of(hook: Option<OptionHook>) -> Check {
    let (state, found, remedy) = match hook {
        Some(OptionHook::Module) => {
            (CheckState::Ok, "this kernel takes programs there, so the call says who sends", None)
        }
        Some(OptionHook::Return) => (
            CheckState::Ok,
            "this kernel takes programs in front of its security modules, so the call says who sends; a kernel that interrupts threads \
             in its own code (preempt=full) can pass such a program over",
            Some("start the kernel with BPF among its security modules (lsm=...,bpf)"),
        ),
        None => (
            CheckState::Warn,
            "this kernel takes no program there: who sends is seen where the packet leaves, and programs of policy can have sessions of \
             L2TP in the kernel",
            Some(
                "keep the module away (`install l2tp_ppp /bin/false` in modprobe.d), and queue nothing that protected programs send \
                 (ravelin-firewall(7))",
            ),
        ),
    };
    Check {
        name: "security hooks".to_owned(),
        state,
        found: found.to_owned(),
        remedy: remedy.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_them_is_named_and_has_a_remedy() {
        let none = check_of(None);
        assert!(
            none.state == CheckState::Warn && none.remedy.is_some_and(|remedy| remedy.contains("l2tp_ppp"))
        );
        let module = check_of(Some(OptionHook::Module));
        assert_eq!((module.state, module.remedy), (CheckState::Ok, None));
        let before = check_of(Some(OptionHook::Return));
        assert!(before.state == CheckState::Ok && before.found.contains("preempt=full"));
    }
}
