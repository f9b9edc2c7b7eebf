/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who writes on a connection that came in (docs/design/0012, activated programs). What is written can leave in other hands, or in
 * nobody's: the peer's window was closed, the segment was corked, and who had the socket last closes it. So the first that writes is noted,
 * and guard.h goes by the note wherever the data leaves.
 */
#ifndef RVL_WRITER_H
#define RVL_WRITER_H

/*
 * Written by user space before the programs are loaded: whether stream_write runs on this kernel, so that nothing comes into the queue of
 * a TCP socket without a note.
 */
const volatile __u32 writes_are_seen SEC(".rodata.writes") = 0;

/*
 * The same: whether judge_sender (sender.h) runs, so that who writes is noted before he does. SENDERS_ALL: of every call. Else the kernel
 * passes it over on a processor where another thread is just in it (preempt=full).
 */
const volatile __u32 senders_are_seen SEC(".rodata.senders") = 0;
#define SENDERS_ALL 2

#define PF_WQ_WORKER 0x00000020u

/*
 * A worker of the kernel's queues, and a socket that a program opened: it closes what an io_uring or a message under way held last, goes on
 * with another subflow of MPTCP, sends what kTLS has encrypted. What it sends, somebody else has written. Of the kernel's own sockets, and
 * from its servers' own threads (NFS), it is the kernel's.
 */
static __always_inline bool is_work_of_another(const struct sock *sk)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();

	return BPF_CORE_READ(task, flags) & PF_WQ_WORKER && !BPF_CORE_READ_BITFIELD_PROBED(sk, sk_kern_sock);
}

/* Whether the first that writes on a socket decides whose it is. Of MPTCP the connection is asked, not its subflows. */
static __always_inline bool writer_decides(const struct sock *sk, const struct rvl_socket *stamp, const __u32 *note)
{
	if (sk->sk_protocol == IPPROTO_MPTCP)
		return !note || kind_of(note) != NOTE_DECIDED;
	return is_unwritten(stamp, note);
}

/* The calling process writes. Of two before anything has left, the stricter one counts; where neither is, nothing leaves. */
static __always_inline int note_writer(struct sock *sk)
{
	const struct rvl_config *cfg = configuration();
	__u32 value, *note;
	__u16 app;

	if (!cfg || (sk->sk_protocol != IPPROTO_TCP && sk->sk_protocol != IPPROTO_MPTCP))
		return 0;
	note = bpf_sk_storage_get(&unclaimed, sk, 0, 0);
	if (!writer_decides(sk, bpf_sk_storage_get(&sockets, sk, 0, 0), note) || is_work_of_another(sk))
		return 0;
	if (note && kind_of(note) == NOTE_CONFLICT)
		return 0;
	/* Where each write is noted before it is in the queue, what is held there was written by nobody who could be noted. */
	if ((writes_are_seen || senders_are_seen == SENDERS_ALL) && sk->sk_protocol == IPPROTO_TCP && note && kind_of(note) == NOTE_HELD)
		return 0;
	app = current_is_exempt(cfg) ? 0 : app_of_current(cfg);
	value = NOTE_WRITTEN | (__u32)app << NOTE_WRITER;
	if (note && kind_of(note) == NOTE_WRITTEN) {
		switch (handover(cfg, *note >> NOTE_WRITER, app)) {
		case HANDOVER_KEEP:
			return 0;
		case HANDOVER_REFUSE:
			value = NOTE_CONFLICT;
			break;
		case HANDOVER_STAMP:
			break;
		}
	}
	if (!note)
		note = bpf_sk_storage_get(&unclaimed, sk, &value, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (note)
		*note = value;
	else
		count(RVL_C_STAMP_FAILED);
	return 0;
}

/* Runs with the socket's lock, before the data is in its queue. Linux 6.16 and later. */
SEC("tp_btf/tcp_sendmsg_locked")
int stream_write(__u64 *ctx)
{
	return note_writer((struct sock *)ctx[0]);
}

/*
 * Runs when the call has written, and nobody has the lock any more: for MPTCP, for what a worker writes of kTLS's, and for TCP where there
 * is no stream_write.
 */
SEC("tp_btf/sock_send_length")
int stream_written(__u64 *ctx)
{
	return (int)ctx[1] > 0 ? note_writer((struct sock *)ctx[0]) : 0;
}

#endif
