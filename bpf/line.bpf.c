// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The scrubber in line (docs/design/0024): an object of its own, for few hosts want it.
 *
 *   guard_ingress  ends what arrives at an interface of the line; the worker's packet socket has heard it before
 *   guard_egress   ends what leaves by one and is not from a worker's socket
 *   shard          says which worker's socket hears a frame
 *
 * The links of the first two are pinned: without a process nothing passes.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define TCX_NEXT (-1)
#define TCX_DROP 2
#define IPPROTO_ICMP 1
#define IPPROTO_ICMPV6 58
#define IPPROTO_HOPOPTS 0
#define IPPROTO_ROUTING 43
#define IPPROTO_FRAGMENT 44
#define IPPROTO_DSTOPTS 60
#define IPV4_LEN 20
#define IPV6_LEN 40
#define ICMP_LEN 8
#define TAGS 2
#define HEADERS 8

/* What the guard of one interface did. */
struct line_count {
	__u64 arrived; /* frames that ended at the ingress: the line's workers have heard them, if there are any */
	__u64 arrived_octets;
	__u64 sent; /* frames of workers that left */
	__u64 sent_octets;
	__u64 refused; /* frames of others that ended at the egress */
	__u64 refused_octets;
};

/* By interface index; pinned. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct line_count);
} line_counts SEC(".maps");

/* The interface that a socket sends on, by the socket's cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u32);
} line_sockets SEC(".maps");

struct line_key {
	__u64 key[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct line_key);
} line_key SEC(".maps");

static __always_inline int ingress(struct __sk_buff *skb)
{
	__u32 index = skb->ifindex;
	struct line_count *count = bpf_map_lookup_elem(&line_counts, &index);

	if (count) {
		__sync_fetch_and_add(&count->arrived, 1);
		__sync_fetch_and_add(&count->arrived_octets, skb->len);
	}
	return TCX_DROP;
}

static __always_inline int egress(struct __sk_buff *skb)
{
	__u32 index = skb->ifindex;
	__u64 cookie = bpf_get_socket_cookie(skb);
	__u32 *own = bpf_map_lookup_elem(&line_sockets, &cookie);
	struct line_count *count = bpf_map_lookup_elem(&line_counts, &index);
	bool pass = own && *own == index;

	if (count) {
		__sync_fetch_and_add(pass ? &count->sent : &count->refused, 1);
		__sync_fetch_and_add(pass ? &count->sent_octets : &count->refused_octets, skb->len);
	}
	return pass ? TCX_NEXT : TCX_DROP;
}

SEC("tcx/ingress")
int guard_ingress(struct __sk_buff *skb)
{
	return ingress(skb);
}

SEC("tcx/egress")
int guard_egress(struct __sk_buff *skb)
{
	return egress(skb);
}

/*
 * The same again: a program can be at a hook only once, and where another one stands before it, its twin goes to the front before it
 * is taken away.
 */
SEC("tcx/ingress")
int twin_ingress(struct __sk_buff *skb)
{
	return ingress(skb);
}

SEC("tcx/egress")
int twin_egress(struct __sk_buff *skb)
{
	return egress(skb);
}

/* Two addresses, IPv4 ones in their IPv6 form. */
struct pair {
	__u64 a[2];
	__u64 b[2];
};

static __always_inline __u64 rotl(__u64 x, int by)
{
	return x << by | x >> (64 - by);
}

static __always_inline void sip_round(__u64 *v)
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

static __always_inline void sip_word(__u64 *v, __u64 word)
{
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
}

static __always_inline __u64 little(__u64 word)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return word;
#else
	return __builtin_bswap64(word);
#endif
}

/* SipHash-1-3 of the 32 octets of both addresses, the lower one first: the same for both directions. */
static __always_inline __u32 sip(const struct line_key *key, const struct pair *pair)
{
	__u64 k0 = little(key->key[0]), k1 = little(key->key[1]);
	__u64 v[4] = { k0 ^ 0x736f6d6570736575ULL, k1 ^ 0x646f72616e646f6dULL, k0 ^ 0x6c7967656e657261ULL,
		       k1 ^ 0x7465646279746573ULL };
	__u64 a0 = bpf_be64_to_cpu(pair->a[0]), b0 = bpf_be64_to_cpu(pair->b[0]);
	__u64 a1 = bpf_be64_to_cpu(pair->a[1]), b1 = bpf_be64_to_cpu(pair->b[1]);
	bool turn = a0 > b0 || (a0 == b0 && a1 > b1);

	sip_word(v, little(turn ? pair->b[0] : pair->a[0]));
	sip_word(v, little(turn ? pair->b[1] : pair->a[1]));
	sip_word(v, little(turn ? pair->a[0] : pair->b[0]));
	sip_word(v, little(turn ? pair->a[1] : pair->b[1]));
	sip_word(v, 32ULL << 56);
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return (__u32)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

static __always_inline bool addresses4(struct __sk_buff *skb, __u32 at, struct pair *pair)
{
	__u32 address[2];

	if (bpf_skb_load_bytes(skb, at + 12, address, sizeof(address)))
		return false;
	pair->a[0] = pair->b[0] = 0;
	((__u32 *)&pair->a[1])[0] = ((__u32 *)&pair->b[1])[0] = bpf_htonl(0xffff);
	((__u32 *)&pair->a[1])[1] = address[0];
	((__u32 *)&pair->b[1])[1] = address[1];
	return true;
}

static __always_inline bool addresses6(struct __sk_buff *skb, __u32 at, struct pair *pair)
{
	return !bpf_skb_load_bytes(skb, at + 8, pair, sizeof(*pair));
}

static __always_inline bool is_error4(__u8 type)
{
	return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

/* Fragments have the packet's own addresses only, the first one too: all of them are to meet. */
static __always_inline bool pair4(struct __sk_buff *skb, __u32 at, struct pair *pair)
{
	__u8 head[IPV4_LEN], icmp[ICMP_LEN + 1];
	struct pair quoted;
	__u32 upper;

	if (bpf_skb_load_bytes(skb, at, head, sizeof(head)) || !addresses4(skb, at, pair))
		return false;
	if (head[9] != IPPROTO_ICMP || (head[6] & 0x3f) || head[7])
		return true;
	upper = at + (head[0] & 15) * 4;
	if (bpf_skb_load_bytes(skb, upper, icmp, sizeof(icmp)) || !is_error4(icmp[0]) || icmp[ICMP_LEN] >> 4 != 4)
		return true;
	if (addresses4(skb, upper + ICMP_LEN, &quoted))
		*pair = quoted;
	return true;
}

static __always_inline bool pair6(struct __sk_buff *skb, __u32 at, struct pair *pair)
{
	__u8 head[8], next, icmp[ICMP_LEN + 1];
	struct pair quoted;
	__u32 upper = at + IPV6_LEN;

	if (bpf_skb_load_bytes(skb, at, head, sizeof(head)) || !addresses6(skb, at, pair))
		return false;
	next = head[6];
	for (int i = 0; i < HEADERS; i++) {
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS)
			break;
		if (bpf_skb_load_bytes(skb, upper, head, 2))
			return true;
		next = head[0];
		upper += (head[1] + 1) * 8;
	}
	if (next != IPPROTO_ICMPV6 || bpf_skb_load_bytes(skb, upper, icmp, sizeof(icmp)) || icmp[0] & 0x80 ||
	    icmp[ICMP_LEN] >> 4 != 6)
		return true;
	if (addresses6(skb, upper + ICMP_LEN, &quoted))
		*pair = quoted;
	return true;
}

/* The data of the buffer begin behind the Ethernet header. What is no IP is the first worker's. */
SEC("socket")
int shard(struct __sk_buff *skb)
{
	__u32 zero = 0, at = 0;
	struct line_key *key = bpf_map_lookup_elem(&line_key, &zero);
	__be16 type = skb->protocol, tag[2];
	struct pair pair;
	bool known = false;

	for (int i = 0; i < TAGS; i++) {
		if (type != bpf_htons(0x8100) && type != bpf_htons(0x88a8) && type != bpf_htons(0x9100))
			break;
		if (bpf_skb_load_bytes(skb, at, tag, sizeof(tag)))
			return 0;
		type = tag[1];
		at += sizeof(tag);
	}
	if (type == bpf_htons(0x0800))
		known = pair4(skb, at, &pair);
	else if (type == bpf_htons(0x86dd))
		known = pair6(skb, at, &pair);
	if (!known || !key)
		return 0;
	return sip(key, &pair);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
