/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Answers of the DNS that programs receive, for networks that are names (docs/design/0014): nothing of this runs unless
 * rvl_config.observe is set. Only an answer to a question that left by the same socket, to the same server, with the same number
 * is told of: whoever does not see the question has to guess as much as the program's own resolver makes him guess.
 */
#ifndef RVL_NAMES_H
#define RVL_NAMES_H

#define DNS_PORT 53
#define UDP_HEADER 8
#define DNS_HEADER 12

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RVL_QUESTIONS);
	__type(key, struct rvl_question_key);
	__type(value, __u32);
} questions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RVL_ANSWERS_SIZE);
} answers SEC(".maps");

/* The number of a DNS message, as on the wire. */
static __always_inline bool message_number(struct __sk_buff *skb, const struct headers *h, __u16 *number)
{
	return !h->fragment && load(skb, h->transport + UDP_HEADER, number, sizeof(*number));
}

/* A datagram that leaves, before it is steered. */
static __always_inline void note_question(struct __sk_buff *skb, const struct rvl_config *cfg, struct bpf_sock *sk)
{
	struct rvl_question_key key = {};
	struct headers h;
	struct sock *kernel;
	__u32 asked = 1;

	/* A connected socket asks one server only; others must be looked at. */
	if (!cfg->observe || sk->protocol != IPPROTO_UDP || (sk->dst_port && sk->dst_port != bpf_htons(DNS_PORT)))
		return;
	if (!parse(skb, 0, &h) || h.protocol != IPPROTO_UDP || h.destination_port != DNS_PORT)
		return;
	if (is_daemons(skb, cfg))
		return;
	kernel = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
	if (kernel->__sk_common.skc_net.net->net_cookie != cfg->netns)
		return;
	if (!message_number(skb, &h, &key.number))
		return;
	key.cookie = bpf_get_socket_cookie(skb);
	__builtin_memcpy(key.server, &h.destination, 16);
	bpf_map_update_elem(&questions, &key, &asked, BPF_ANY);
}

/* A datagram that its socket is about to get. */
static __always_inline void tell_answer(struct __sk_buff *skb, const struct rvl_config *cfg, struct bpf_sock *sk,
					const struct rvl_socket *stamp)
{
	struct rvl_question_key key = {};
	struct rvl_answer *answer;
	struct headers h;
	__be16 length;
	__u32 octets;

	if (!cfg->observe || sk->protocol != IPPROTO_UDP)
		return;
	if (!parse(skb, 0, &h) || h.protocol != IPPROTO_UDP || h.source_port != DNS_PORT)
		return;
	if (!message_number(skb, &h, &key.number) || !load(skb, h.transport + 4, &length, sizeof(length)))
		return;
	key.cookie = bpf_get_socket_cookie(skb);
	__builtin_memcpy(key.server, &h.source, 16);
	/* The first answer is the one that counts. */
	if (bpf_map_delete_elem(&questions, &key)) {
		count(RVL_C_DNS_UNASKED);
		return;
	}
	octets = bpf_ntohs(length);
	if (octets < UDP_HEADER + DNS_HEADER || octets > UDP_HEADER + RVL_ANSWER) {
		count(RVL_C_DNS_LOST);
		return;
	}
	octets -= UDP_HEADER;
	answer = bpf_ringbuf_reserve(&answers, sizeof(*answer), 0);
	if (!answer) {
		count(RVL_C_DNS_LOST);
		return;
	}
	answer->cookie = key.cookie;
	answer->app = stamp ? stamp->app : 0;
	answer->length = octets;
	answer->zero = 0;
	__builtin_memcpy(answer->server, &h.source, 16);
	if (octets == 0 || octets > RVL_ANSWER || !load(skb, h.transport + UDP_HEADER, answer->message, octets)) {
		bpf_ringbuf_discard(answer, 0);
		count(RVL_C_DNS_LOST);
		return;
	}
	bpf_ringbuf_submit(answer, 0);
	count(RVL_C_DNS_TOLD);
}

#endif
