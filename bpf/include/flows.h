/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flows, packet by packet: the same packets at the same places as traffic.h, told apart by their addresses and ports
 * (docs/design/0018). Nothing of it runs unless rvl_config.flows is set. The table is not one that throws entries out when it
 * is full: user space takes out what has ended, and what finds no room is counted.
 */
#ifndef RVL_FLOWS_H
#define RVL_FLOWS_H

#define TCP_STATE_LISTEN 10
#define TCP_FLAGS 13
#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RVL_FLOWS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct rvl_flow_key);
	__type(value, struct rvl_flow);
} flows SEC(".maps");

/* Too large for the stack. */
static const struct rvl_flow no_flow = {};
/* What cannot be read is a flow too: that of no protocol and no address. */
static const struct headers unreadable = {};

static __always_inline bool is_outbound(__u16 kind)
{
	return kind < RVL_T_IN_CLEAR || (kind >= RVL_T_OUT_WOULD_REFUSE && kind < RVL_T_IN_WOULD_REFUSE);
}

/* Null: there is no room. */
static __always_inline struct rvl_flow *flow_of(const struct rvl_flow_key *key, __u64 now, bool *fresh)
{
	struct rvl_flow *flow = bpf_map_lookup_elem(&flows, key);

	*fresh = false;
	if (flow)
		return flow;
	*fresh = !bpf_map_update_elem(&flows, key, &no_flow, BPF_NOEXIST);
	flow = bpf_map_lookup_elem(&flows, key);
	if (!flow) {
		count(RVL_C_FLOWS_LOST);
		return 0;
	}
	if (*fresh)
		flow->first = now;
	return flow;
}

/* The calling process, which sends: to be shown, never to decide by. */
static __always_inline void note_sender(struct rvl_flow *flow)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rvl_task *known;

	if (flow->pid || !task->mm)
		return;
	known = record_of(task->group_leader);
	if (known)
		flow->identity = known->identity;
	bpf_probe_read_kernel_str(flow->comm, sizeof(flow->comm), task->group_leader->comm);
	flow->pid = task->tgid;
}

/* Whether the packet is sent by a call that its socket's process makes now: TCP also sends while others run. */
static __always_inline bool is_in_call(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct sock *kernel;

	if (!sk)
		return false;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->state == TCP_STATE_LISTEN)
		return false;
	kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
	if (!kernel->sk_socket || !kernel->sk_socket->file)
		return false;
	return sk->protocol != IPPROTO_TCP || kernel->sk_lock.owned;
}

static __always_inline void add_to_flow(struct rvl_flow *flow, __u16 kind, __u64 packets, __u64 octets, __u64 now)
{
	if (kind >= RVL_T_KINDS)
		return;
	__sync_fetch_and_add(&flow->kinds[kind].packets, packets);
	__sync_fetch_and_add(&flow->kinds[kind].octets, octets);
	flow->last = now;
}

/*
 * Count packets of an application for their flow: `what` is the application, and the kind (RVL_T_*) 16 bits higher; `h` has their
 * headers, null where they cannot be read. A global function on numbers, for the verifier's sake.
 */
__noinline int note_flow(struct __sk_buff *skb, __u32 what, __u64 packets, __u64 octets, const struct headers *h)
{
	struct rvl_flow_key key = {};
	struct rvl_flow *flow;
	__u64 now = bpf_ktime_get_ns();
	__u16 kind = what >> 16;
	__u8 flags = 0, way;
	bool out, fresh;

	if (kind >= RVL_T_KINDS)
		return 0;
	out = is_outbound(kind);
	if (!h)
		h = &unreadable;
	key.app = what & 0xffff;
	key.protocol = h->protocol;
	__builtin_memcpy(key.local, out ? &h->source : &h->destination, 16);
	__builtin_memcpy(key.remote, out ? &h->destination : &h->source, 16);
	key.local_port = out ? h->source_port : h->destination_port;
	key.remote_port = out ? h->destination_port : h->source_port;
	flow = flow_of(&key, now, &fresh);
	if (!flow)
		return 0;
	way = out ? RVL_FLOW_OUT : RVL_FLOW_IN;
	if (h->protocol != IPPROTO_TCP) {
		if (fresh)
			flow->begun = way;
	} else if (!h->later_fragment && load(skb, h->transport + TCP_FLAGS, &flags, 1)) {
		if ((flags & (TCP_SYN | TCP_ACK)) == TCP_SYN && !flow->begun)
			flow->begun = way;
		if (flags & TCP_RST)
			flow->ended |= RVL_FLOW_RESET;
		else if (flags & TCP_FIN)
			flow->ended |= way;
	}
	/* What returns is sent by the daemon. */
	if (!flow->pid && out && kind != RVL_T_OUT_RETURNED && is_in_call(skb))
		note_sender(flow);
	add_to_flow(flow, kind, packets, octets, now);
	return 0;
}

/* Count packets for their flow, if flows are counted. */
static __always_inline void count_flow(struct __sk_buff *skb, __u16 app, __u16 kind, __u64 packets, __u64 octets,
				       const struct headers *h)
{
	const struct rvl_config *cfg = configuration();

	if (cfg && cfg->flows)
		note_flow(skb, app | (__u32)kind << 16, packets, octets, h);
}

/* A call that was refused has no packet, and often no address of its own yet. */
static __always_inline void note_call(const struct rvl_config *cfg, __u16 app, const struct address *peer, __u16 port,
				      __u8 protocol, __u16 kind)
{
	struct rvl_flow_key key = { .app = app, .protocol = protocol, .remote_port = port };
	__u64 now = bpf_ktime_get_ns();
	struct rvl_flow *flow;
	bool fresh;

	if (!cfg->flows)
		return;
	__builtin_memcpy(key.remote, peer, 16);
	/* Of the peer's family. */
	if (!peer->halves[0] && peer->words[2] == bpf_htonl(0xffff))
		key.local[10] = key.local[11] = 0xff;
	flow = flow_of(&key, now, &fresh);
	if (!flow)
		return;
	if (fresh)
		flow->begun = RVL_FLOW_OUT;
	note_sender(flow);
	add_to_flow(flow, kind, 1, 0, now);
}

#endif
