/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's security hooks. That of setsockopt sees calls that no cgroup hook sees: those of 32 bits, and those by a ring of
 * io_uring that such a call made. It sees level and name, no value. That of sendmsg sees who sends, before anything can hold the
 * packet up, and that of connect who asks for a session of L2TP (sender.h). User space has tried before which programs the kernel
 * takes there, if any (crates/sockmon/src/security.rs, docs/design/0016).
 */
#ifndef RVL_SECURITY_H
#define RVL_SECURITY_H

/* In thread_info.status of x86, in thread_info.flags of arm64. */
#define TS_COMPAT 2
#define TIF_32BIT 22

/* Whether the calling thread is in a system call of 32 bits, whose value no hook sees. */
static __always_inline bool is_in_call_of_32_bits(void)
{
#if defined(__TARGET_ARCH_x86)
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();

	return BPF_CORE_READ(task, thread_info.status) & TS_COMPAT;
#elif defined(__TARGET_ARCH_arm64)
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();

	return BPF_CORE_READ(task, thread_info.flags) >> TIF_32BIT & 1;
#else
	return false;
#endif
}

/*
 * What set_option refuses to the programs of policy, for every kind of call. A mark is refused without a look at it where
 * set_option does not see it: the value is not to be had here, and no program of policy may set another mark than its own.
 */
static __always_inline int judge_option(struct socket *socket, int level, int name)
{
	const struct rvl_config *cfg = configuration();
	bool bypass = leads_past_devices(level, name);
	struct address none = {};
	struct attempt a = { .peer = &none, .hook = RVL_HOOK_SETSOCKOPT };
	struct sock *sk;

	if (!bypass && !(level == SOL_SOCKET && name == SO_MARK && is_in_call_of_32_bits()))
		return 0;
	sk = socket->sk;
	if (!cfg || !sk || current_is_exempt(cfg) || !is_watched(sk, cfg))
		return 0;
	a.app = app_of_current(cfg);
	if (!a.app && !(bypass && cfg->guards))
		return 0;
	a.family = sk->__sk_common.skc_family;
	a.protocol = sk->sk_protocol;
	refuse(bypass ? RVL_C_SETSOCKOPT_BYPASS : RVL_C_SETSOCKOPT_MARK, &a);
	return -EPERM;
}

/* Where BPF is one of the kernel's security modules. */
SEC("lsm/socket_setsockopt")
int option_lsm(__u64 *ctx)
{
	return judge_option((struct socket *)ctx[0], ctx[1], ctx[2]);
}

/*
 * Where it is not. The kernel passes such a program over on a processor where another thread is just in it, which takes a kernel
 * that interrupts threads inside of it (preempt=full).
 */
SEC("fmod_ret/security_socket_setsockopt")
int option_return(__u64 *ctx)
{
	return judge_option((struct socket *)ctx[0], ctx[1], ctx[2]);
}

SEC("lsm/socket_sendmsg")
int sender_lsm(__u64 *ctx)
{
	int error = judge_session((struct socket *)ctx[0], RVL_HOOK_SENDMSG);

	return error ? error : judge_sender((struct socket *)ctx[0]);
}

/*
 * Calls that sender_entry refuses and sender_return is to end, by the calling thread: the socket. An entry is there between the two, which the
 * kernel runs one after the other.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} refused_calls SEC(".maps");

/* In front of the security modules a program that may refuse reaches no storage of sockets, and one that reaches it may not refuse: two. */
SEC("fentry/security_socket_sendmsg")
int sender_entry(__u64 *ctx)
{
	__u64 task = bpf_get_current_task(), socket = ctx[0];

	if (judge_sender((struct socket *)ctx[0]) && bpf_map_update_elem(&refused_calls, &task, &socket, BPF_ANY))
		count(RVL_C_STAMP_FAILED);
	return 0;
}

SEC("fmod_ret/security_socket_sendmsg")
int sender_return(__u64 *ctx)
{
	__u64 task = bpf_get_current_task(), *refused = bpf_map_lookup_elem(&refused_calls, &task);
	bool is_this;

	if (refused) {
		/* What is left of a call whose end the kernel passed over is of another socket, or refuses one call more. */
		is_this = *refused == (__u64)ctx[0];
		bpf_map_delete_elem(&refused_calls, &task);
		if (is_this)
			return -EPERM;
	}
	return judge_session((struct socket *)ctx[0], RVL_HOOK_SENDMSG);
}

SEC("lsm/socket_connect")
int session_lsm(__u64 *ctx)
{
	return judge_session((struct socket *)ctx[0], RVL_HOOK_CONNECT);
}

SEC("fmod_ret/security_socket_connect")
int session_return(__u64 *ctx)
{
	return judge_session((struct socket *)ctx[0], RVL_HOOK_CONNECT);
}

#endif
