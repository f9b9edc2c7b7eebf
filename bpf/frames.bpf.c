// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Outer packets straight from a device's driver to a socket of the daemon's (AF_XDP): ESP in UDP, bare ESP and AH, fragments
 * that may be theirs, all only if they are for this host. Everything else goes on to the host, which may forward it. An
 * object of its own, for few hosts want it; it is attached by a link that ends with the daemon.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define AF_INET 2
#define AF_INET6 10
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_UDP 17
#define IPPROTO_FRAGMENT 44
#define IPPROTO_ESP 50
#define IPPROTO_AH 51
#define XDP_PASS 2
#define ETH_LEN 14
#define IPV6_LEN 40

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

/* The daemon's socket, by receive queue. */
struct {
	__uint(type, 17); /* BPF_MAP_TYPE_XSKMAP */
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} frame_sockets SEC(".maps");

/* The UDP port of ESP, in network order. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} frame_port SEC(".maps");

static __always_inline bool is_esp_port(__be16 port)
{
	__u32 key = 0;
	__u32 *ours = bpf_map_lookup_elem(&frame_port, &key);

	return ours && *ours == port;
}

/*
 * Whether the host would not pass it on: its routes say that the address is its own (or nobody's), or it forwards nothing.
 * Asked for each packet, not of a list: addresses change.
 */
static __always_inline bool is_ours(struct xdp_md *ctx, struct bpf_fib_lookup *fib)
{
	long answer;

	fib->ifindex = ctx->ingress_ifindex;
	answer = bpf_fib_lookup(ctx, fib, sizeof(*fib), 0);
	return answer >= 1 && answer <= 5;
}

static __always_inline bool is_for_us(struct xdp_md *ctx)
{
	const __u8 *frame = (const __u8 *)(long)ctx->data;
	const __u8 *end = (const __u8 *)(long)ctx->data_end;
	struct bpf_fib_lookup fib = {};

	if (frame + ETH_LEN + 20 > end)
		return false;
	if (*(__be16 *)(frame + 12) == bpf_htons(ETH_P_IP)) {
		fib.family = AF_INET;
		__builtin_memcpy(fib.source, frame + ETH_LEN + 12, 4);
		__builtin_memcpy(fib.destination, frame + ETH_LEN + 16, 4);
		return is_ours(ctx, &fib);
	}
	if (frame + ETH_LEN + IPV6_LEN > end)
		return false;
	fib.family = AF_INET6;
	__builtin_memcpy(fib.source, frame + ETH_LEN + 8, 16);
	__builtin_memcpy(fib.destination, frame + ETH_LEN + 24, 16);
	return is_ours(ctx, &fib);
}

static __always_inline bool is_outer(const __u8 *frame, const __u8 *end)
{
	__u32 length;

	/* Not for one station. */
	if (frame + ETH_LEN > end || frame[0] & 1)
		return false;
	switch (bpf_ntohs(*(__be16 *)(frame + 12))) {
	case ETH_P_IP:
		if (frame + ETH_LEN + 20 > end)
			return false;
		if (frame[ETH_LEN + 9] == IPPROTO_ESP || frame[ETH_LEN + 9] == IPPROTO_AH)
			return true;
		if (frame[ETH_LEN + 9] != IPPROTO_UDP)
			return false;
		if (*(__be16 *)(frame + ETH_LEN + 6) & bpf_htons(0x3fff))
			return true;
		length = (frame[ETH_LEN] & 15) * 4;
		if (length < 20 || frame + ETH_LEN + length + 4 > end)
			return false;
		return is_esp_port(*(__be16 *)(frame + ETH_LEN + length + 2));
	case ETH_P_IPV6:
		if (frame + ETH_LEN + IPV6_LEN + 4 > end)
			return false;
		switch (frame[ETH_LEN + 6]) {
		case IPPROTO_ESP:
		case IPPROTO_AH:
		case IPPROTO_FRAGMENT:
			return true;
		case IPPROTO_UDP:
			return is_esp_port(*(__be16 *)(frame + ETH_LEN + IPV6_LEN + 2));
		}
		return false;
	}
	return false;
}

SEC("xdp")
int frames(struct xdp_md *ctx)
{
	const __u8 *frame = (const __u8 *)(long)ctx->data;

	if (!is_outer(frame, (const __u8 *)(long)ctx->data_end) || !is_for_us(ctx))
		return XDP_PASS;
	return bpf_redirect_map(&frame_sockets, ctx->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
