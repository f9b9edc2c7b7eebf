/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Iterators: identities, sockets and connections that are older than the programs, and the answer to "whose socket
 * is this". User space reads them; what they write is struct rvl_*_report.
 */
#ifndef RVL_ADOPT_H
#define RVL_ADOPT_H

/* How deep the watched group may be. What is below it may be deeper. */
#define CGROUP_DEPTH 64

/* Ancestors that are looked at for a process whose history nobody wrote down. */
#define ANCESTORS 64

/* The images of `from` that the ancestors of a task run now. What they ran before, nobody knows. */
static __noinline __u64 run_by_ancestors(const struct rvl_config *cfg, struct task_struct *task)
{
	struct rvl_list *list;
	struct rvl_task *known;
	__u64 bits = 0;

	bpf_repeat(ANCESTORS) {
		task = task->real_parent;
		if (!task || !task->pid)
			break;
		task = task->group_leader;
		if (!task)
			break;
		known = record_of(task);
		list = known ? list_of(cfg, known) : 0;
		if (list)
			bits |= list->bits;
	}
	return bits;
}

SEC("iter/task")
int adopt_tasks(struct bpf_iter__task *ctx)
{
	const struct rvl_config *cfg = configuration();
	struct task_struct *task = ctx->task;
	struct task_struct *leader;
	struct rvl_task image = {};
	struct rvl_task *known;
	__u64 seen;

	if (!cfg || !task)
		return 0;
	leader = task->group_leader;
	/* A first thread that has ended has no image any more; the others have it. */
	if (!leader || (task != leader && leader->mm) || !identify_image(task, &image))
		return 0;
	known = record_of(leader);
	if (!known) {
		/* It is just being made, and task_fork comes behind, or there was no room: its first call decides. */
		if (must_have_record(leader))
			return 0;
		/* A record that exec or fork wrote meanwhile stays. */
		keep_record(leader, &image);
		known = record_of(leader);
	}
	if (!known)
		return 0;
	/* What was found in its file since counts for it from now on, whatever becomes of the file's time. */
	number_of_list(known, (cfg->generation & 1) * RVL_LISTS);
	/* Bits that stand for nothing any more may come to stand for something else. */
	known->ancestors &= cfg->ancestors & ~cfg->fresh;
	if (cfg->fresh) {
		seen = run_by_ancestors(cfg, task);
		known->ancestors |= seen & cfg->fresh;
	}
	return 0;
}

/* What one process is to policy; user space restricts it to a pid. */
SEC("iter/task")
int report_task(struct bpf_iter__task *ctx)
{
	const struct rvl_config *cfg = configuration();
	struct task_struct *task = ctx->task;
	struct rvl_task_report report = {};
	struct rvl_task *known;

	if (!cfg || !task || task->pid != task->tgid)
		return 0;
	known = record_of(task);
	if (!known)
		return 0;
	report.pid = task->tgid;
	report.uid = task->cred->uid.val;
	report.identity = known->identity;
	report.ancestors = known->ancestors;
	report.list = known->list;
	report.app = task->cgroups->dfl_cgrp->kn->id == cfg->exempt ? 0 : app_of(cfg, task, known);
	bpf_seq_write(ctx->meta->seq, &report, sizeof(report));
	return 0;
}

/* The files that a process holds open, in the kernel's numbers; user space restricts it to its own pid. */
SEC("iter/task_file")
int report_files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct rvl_file_report report = {};
	const struct inode *inode;

	if (!task || !file)
		return 0;
	inode = BPF_CORE_READ(file, f_inode);
	if (!read_identity(inode, &report.identity))
		return 0;
	report.pid = task->tgid;
	report.fd = ctx->fd;
	report.writers = BPF_CORE_READ(inode, i_writecount.counter);
	bpf_seq_write(ctx->meta->seq, &report, sizeof(report));
	return 0;
}

/* Whether the hooks run for the socket: its cgroup is the attached one or below, and not the daemon's. */
static __noinline bool is_watched(struct sock *sk, const struct rvl_config *cfg)
{
	struct cgroup *own = sk->sk_cgrp_data.cgroup;
	const struct cgroup *above;
	__u64 first;

	if (!own || own->kn->id == cfg->exempt)
		return false;
	first = (__u64)own + bpf_core_field_offset(own->ancestors);
	for (int i = 0; i < CGROUP_DEPTH; i++) {
		if (i > own->level || bpf_probe_read_kernel(&above, sizeof(above), (const void *)(first + 8 * i)) || !above)
			return false;
		if (BPF_CORE_READ(above, kn, id) == cfg->cgroup)
			return true;
	}
	return false;
}

static __always_inline struct sock *inet_socket_of(struct file *file)
{
	struct socket *socket = bpf_sock_from_file(file);
	struct sock *sk = socket ? socket->sk : 0;

	if (!sk || (sk->__sk_common.skc_family != AF_INET && sk->__sk_common.skc_family != AF_INET6))
		return 0;
	return sk;
}

/*
 * A listener of SCTP's, for associations that wait to be accepted: by its address, or for all addresses. The kernel gives one for all
 * addresses the address of its latest association; what waits at another one has no note then, and hears nothing (hears_for_nobody_known).
 */
static __always_inline void note_sctp_listener(struct sock *sk, __u16 app, __u8 required)
{
	struct sock_common *common = &sk->__sk_common;
	struct rvl_endpoint value = { .app = app, .required = required };
	struct rvl_endpoint_key key = {};
	struct address local;

	key.netns = common->skc_net.net->net_cookie;
	key.device = common->skc_bound_dev_if;
	key.port = common->skc_num;
	if (common->skc_family == AF_INET)
		mapped(&local, common->skc_rcv_saddr);
	else
		__builtin_memcpy(&local, &common->skc_v6_rcv_saddr, 16);
	__builtin_memcpy(key.addr, &local, 16);
	bpf_map_update_elem(&sctp_listeners, &key, &value, BPF_ANY);
	/* All addresses of IPv6 are those of IPv4 as well, unless another program may listen there. */
	if (common->skc_family == AF_INET || local.halves[0] || local.halves[1] ||
	    BPF_CORE_READ_BITFIELD_PROBED(common, skc_ipv6only))
		return;
	mapped((struct address *)key.addr, 0);
	bpf_map_update_elem(&sctp_listeners, &key, &value, BPF_ANY);
}

static __always_inline void write_report(struct bpf_iter__task_file *ctx, struct task_struct *task,
					 struct file *file, struct sock *sk, struct rvl_socket *stamp,
					 struct rvl_task *known, __u16 wanted, __u8 stamped)
{
	struct rvl_socket_report r = {};
	struct sock_common *common = &sk->__sk_common;

	r.pid = task->tgid;
	r.fd = ctx->fd;
	if (known)
		r.identity = known->identity;
	r.cookie = bpf_get_socket_cookie(sk);
	r.netns = common->skc_net.net->net_cookie;
	r.inode = file->f_inode->i_ino;
	r.mark = sk->sk_mark;
	r.family = common->skc_family;
	r.protocol = sk->sk_protocol;
	r.state = common->skc_state;
	if (has_ports(r.protocol)) {
		r.local_port = common->skc_num;
		r.remote_port = bpf_ntohs(common->skc_dport);
	}
	if (r.family == AF_INET) {
		mapped((struct address *)r.local, common->skc_rcv_saddr);
		mapped((struct address *)r.remote, common->skc_daddr);
	} else {
		__builtin_memcpy(r.local, &common->skc_v6_rcv_saddr, 16);
		__builtin_memcpy(r.remote, &common->skc_v6_daddr, 16);
	}
	r.app = wanted;
	r.stamped = stamped;
	if (stamp) {
		r.app = stamp->app;
		r.required = stamp->required;
	}
	__builtin_memcpy(r.comm, task->group_leader->comm, 16);
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
}

SEC("iter/task_file")
int report_sockets(struct bpf_iter__task_file *ctx)
{
	/* Each read of the context would be another pointer to the verifier. */
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	const struct rvl_config *cfg = configuration();
	struct rvl_socket *stamp;
	struct sock *sk;
	__u8 stamped;

	if (!cfg || !task || !file)
		return 0;
	sk = inet_socket_of(file);
	if (!sk)
		return 0;
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	stamped = stamp ? RVL_STAMPED : is_watched(sk, cfg) ? RVL_UNSTAMPED : RVL_UNWATCHED;
	write_report(ctx, task, file, sk, stamp, record_of(task->group_leader), 0,
		     stamped);
	return 0;
}

/* A process holds it, and it is nobody's. */
static __always_inline void note_seen(struct sock *sk)
{
	__u32 *note = bpf_sk_storage_get(&unclaimed, sk, 0, 0);

	if (note && *note == NOTE_SUSPECT)
		*note = NOTE_SEEN;
}

/* Whose an MPTCP connection is holds for all its subflows. */
static __always_inline void note_decided(struct sock *sk)
{
	__u32 decided = NOTE_DECIDED, *note;

	note = bpf_sk_storage_get(&unclaimed, sk, &decided, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (note)
		*note = NOTE_DECIDED;
	else
		count(RVL_C_STAMP_FAILED);
}

/* stays_unclaimed (note.h) for a socket as an iterator has it: whether no process has written on a connection that one holds. */
static __always_inline bool is_held_unwritten(struct sock *sk, const struct rvl_socket *stamp)
{
	__u32 *note = bpf_sk_storage_get(&unclaimed, sk, 0, 0);

	if (sk->sk_protocol == IPPROTO_MPTCP)
		return note && is_open(note);
	return sk->sk_protocol == IPPROTO_TCP && is_unwritten(stamp, note);
}

/*
 * Stamp the sockets of policed programs by storage, and report them: the mark is set by iter/tcp or user space. A connection that came in
 * and on which no process has written is the first writer's, whoever holds it now.
 */
SEC("iter/task_file")
int adopt_sockets(struct bpf_iter__task_file *ctx)
{
	const struct rvl_config *cfg = configuration();
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	__u8 stamped = RVL_STAMPED;
	struct rvl_task *known;
	struct rvl_socket *stamp;
	struct sock *sk;
	bool unwritten;
	__u16 is;

	if (!cfg || !task || !file)
		return 0;
	sk = inet_socket_of(file);
	if (!sk || !is_watched(sk, cfg))
		return 0;
	known = record_of(task->group_leader);
	is = known ? app_of(cfg, task, known) : 0;
	stamp = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!is && !stamp) {
		note_seen(sk);
		/* One without a stamp is nobody's. */
		if (sk->sk_protocol == IPPROTO_SCTP) {
			note_decided(sk);
			if (sk->__sk_common.skc_state == TCP_LISTEN)
				note_sctp_listener(sk, 0, 0);
		}
		return 0;
	}
	unwritten = is_held_unwritten(sk, stamp);
	/* What must not send must not go on sending. */
	switch (is == RVL_APP_REFUSED ? HANDOVER_STAMP : handover_of(cfg, stamp, is)) {
	case HANDOVER_KEEP:
		break;
	case HANDOVER_REFUSE:
		count(RVL_C_INCOMPARABLE);
		break;
	case HANDOVER_STAMP:
		if (!stamp || stamp->app != is)
			stamped = RVL_STAMPED_NOW;
		if (!stamp)
			stamp = bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!stamp) {
			count(RVL_C_STAMP_FAILED);
			stamped = RVL_UNSTAMPED;
			break;
		}
		assign(stamp, sk->__sk_common.skc_net.net->net_cookie, is);
		stamp->unclaimed = unwritten;
		count(RVL_C_STAMPED);
		break;
	}
	/* A process holds an MPTCP connection by this socket; its subflows are in no table of descriptors. */
	if (stamp && !unwritten && sk->sk_protocol == IPPROTO_MPTCP && sk->__sk_common.skc_state != TCP_LISTEN)
		note_decided(sk);
	if (stamp && sk->sk_protocol == IPPROTO_SCTP && sk->__sk_common.skc_state == TCP_LISTEN)
		note_sctp_listener(sk, stamp->app, stamp->required);
	write_report(ctx, task, file, sk, stamp, known, is, stamped);
	return 0;
}

/* The application that listens on the local address of a connection nobody has accepted. */
static __always_inline __u16 app_of_listener(struct sock_common *common)
{
	struct rvl_listener_key key = {};
	__u32 *app;

	key.port = common->skc_num;
	if (common->skc_family == AF_INET)
		mapped((struct address *)key.addr, common->skc_rcv_saddr);
	else
		__builtin_memcpy(key.addr, &common->skc_v6_rcv_saddr, 16);
	app = bpf_map_lookup_elem(&listeners, &key);
	if (!app && common->skc_family == AF_INET) {
		mapped((struct address *)key.addr, 0);
		app = bpf_map_lookup_elem(&listeners, &key);
	}
	if (!app) {
		__builtin_memset(key.addr, 0, 16);
		app = bpf_map_lookup_elem(&listeners, &key);
	}
	return app ? (__u16)*app : 0;
}

/* Whether a connection waits for its listener's program to accept it. What is closed has no descriptor either. */
static __always_inline bool waits(const struct sock_common *common)
{
	return common->skc_state == TCP_ESTABLISHED || common->skc_state == TCP_CLOSE_WAIT;
}

/*
 * Note a connection that waits at a listener: the first that writes on it decides, as if it had come a moment later. From Linux 6.12 on one
 * without room for the note sends nothing (note.h).
 */
static __always_inline void note_waiting(struct sock_common *common)
{
	__u32 flags = NO_ROOM_FLAGS;

	if (bpf_sk_storage_get(&unclaimed, common, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return;
	count(RVL_C_STAMP_FAILED);
	bpf_setsockopt(common, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
}

/* The reader's network namespace only. Sockets are locked here, so their mark can be set. */
SEC("iter/tcp")
int adopt_tcp(struct bpf_iter__tcp *ctx)
{
	const struct rvl_config *cfg = configuration();
	struct sock_common *common = ctx->sk_common;
	struct rvl_socket *stamp;
	struct tcp_sock *tcp;
	__u32 mark, old;
	__u16 app;

	if (!cfg || !common)
		return 0;
	/* Full sockets only: not TIME_WAIT, not a request. */
	tcp = bpf_skc_to_tcp_sock(common);
	if (!tcp)
		return 0;
	stamp = bpf_sk_storage_get(&sockets, common, 0, 0);
	if (!stamp && !tcp->inet_conn.icsk_inet.sk.sk_socket) {
		if (!is_watched(&tcp->inet_conn.icsk_inet.sk, cfg))
			return 0;
		app = app_of_listener(common);
		if (cfg->generation && waits(common))
			note_waiting(common);
		if (!app)
			return 0;
		stamp = bpf_sk_storage_get(&sockets, common, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!stamp) {
			count(RVL_C_STAMP_FAILED);
			return 0;
		}
		stamp->netns = cfg->netns;
		stamp->app = app;
		stamp->unclaimed = waits(common);
		count(RVL_C_STAMPED);
	}
	if (!stamp || stamp->netns != cfg->netns)
		return 0;
	old = tcp->inet_conn.icsk_inet.sk.sk_mark;
	mark = mark_with(old, stamp->app, stamp->required);
	if (mark != old && bpf_setsockopt(common, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)))
		count(RVL_C_STAMP_FAILED);
	return 0;
}

/*
 * Connections that adoption has met in no table of descriptors, and that are in use all the same: in a ring's own table (io_uring), under
 * way from one process to another. In two calls, with a look at all tables before each: what is met in none is suspect; what is
 * still met in none is its listener's, or whose it is must show before it sends again.
 */
SEC("iter/tcp")
int adopt_unseen(struct bpf_iter__tcp *ctx)
{
	const struct rvl_config *cfg = configuration();
	struct sock_common *common = ctx->sk_common;
	struct rvl_socket *stamp;
	struct tcp_sock *tcp;
	struct socket *socket;
	__u32 *note;
	__u16 app;

	if (!cfg || !common || common->skc_state == TCP_LISTEN)
		return 0;
	tcp = bpf_skc_to_tcp_sock(common);
	if (!tcp)
		return 0;
	socket = tcp->inet_conn.icsk_inet.sk.sk_socket;
	/* Not accepted yet, closed, or the kernel's own. */
	if (!socket || !socket->file || !is_watched(&tcp->inet_conn.icsk_inet.sk, cfg))
		return 0;
	stamp = bpf_sk_storage_get(&sockets, common, 0, 0);
	if (stamp && stamp->app)
		return 0;
	note = bpf_sk_storage_get(&unclaimed, common, 0, 0);
	if (note && is_open(note))
		return 0;
	if (!note || *note == NOTE_SEEN) {
		note = bpf_sk_storage_get(&unclaimed, common, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (note)
			*note = NOTE_SUSPECT;
		return 0;
	}
	*note = NOTE_UNCLAIMED;
	app = app_of_listener(common);
	if (!app)
		return 0;
	stamp = bpf_sk_storage_get(&sockets, common, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!stamp) {
		count(RVL_C_STAMP_FAILED);
		return 0;
	}
	assign(stamp, cfg->netns, app);
	stamp->unclaimed = 1;
	count(RVL_C_STAMPED);
	return 0;
}

/* Whether some application must not send to a peer in clear. */
static __noinline bool some_must_protect(const struct rvl_config *cfg, const struct address *peer)
{
	__u32 app;

	if (!cfg || !peer)
		return true;
	bpf_for(app, 1, RVL_APP_GUARD) {
		/* Most numbers are nobody's. */
		if (table_of(cfg->generation, app) && !may_go_in_clear(cfg, app, 0, peer))
			return true;
	}
	return false;
}

/*
 * Connections that a program closed before the programs were attached, and whose rest is not acknowledged yet. No process has them any more, so
 * nobody can say which application's they are. Where one of the applications must not send to the peer in clear, they send nothing more.
 */
SEC("iter/tcp")
int adopt_closed(struct bpf_iter__tcp *ctx)
{
	const struct rvl_config *cfg = configuration();
	struct sock_common *common = ctx->sk_common;
	struct address peer;
	struct tcp_sock *tcp;

	if (!cfg || !cfg->generation || !common)
		return 0;
	tcp = bpf_skc_to_tcp_sock(common);
	if (!tcp || tcp->inet_conn.icsk_inet.sk.sk_socket || waits(common) || tcp->write_seq == tcp->snd_una)
		return 0;
	if (!is_watched(&tcp->inet_conn.icsk_inet.sk, cfg) || bpf_sk_storage_get(&sockets, common, 0, 0))
		return 0;
	if (common->skc_family == AF_INET)
		mapped(&peer, common->skc_daddr);
	else
		__builtin_memcpy(&peer, &common->skc_v6_daddr, 16);
	/* A connection of this host with itself needs no protection. */
	if (!is_own_address(&peer) && some_must_protect(cfg, &peer))
		note_waiting(common);
	return 0;
}

#endif
