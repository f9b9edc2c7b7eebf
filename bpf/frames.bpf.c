// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Outer packets straight from a device's driver to a socket of the daemon's (AF_XDP): ESP in UDP, bare ESP and AH, fragments
 * that may be theirs, all only if they are for this host. Everything else goes on to the host, which may forward it. An
 * object of its own, for few hosts want it; it is attached by a link that ends with the daemon.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "abi.h"
#include "socket_maps.h"
#include "kernel_queue.h"

#define AF_INET 2
#define AF_INET6 10
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_UDP 17
#define IPPROTO_FRAGMENT 44
#define IPPROTO_ESP 50
#define IPPROTO_AH 51
#define XDP_DROP 1
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

/* The daemon's sockets, by the queue of a class. Those of one device share its first receive queue. */
struct {
	__uint(type, 17); /* BPF_MAP_TYPE_XSKMAP */
	__uint(max_entries, RVL_SOCKET_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} frame_sockets SEC(".maps");

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

/* Whether a frame may be an outer packet, and where its SPI is, in octets behind the frame's first; 0: it names no association. */
static __always_inline bool is_outer(const __u8 *frame, const __u8 *end, __u32 *spi)
{
	__u32 length;
	bool fragment;

	/* Not for one station. */
	if (frame + ETH_LEN > end || frame[0] & 1)
		return false;
	switch (bpf_ntohs(*(__be16 *)(frame + 12))) {
	case ETH_P_IP:
		if (frame + ETH_LEN + 20 > end)
			return false;
		fragment = *(__be16 *)(frame + ETH_LEN + 6) & bpf_htons(0x3fff);
		length = (frame[ETH_LEN] & 15) * 4;
		switch (frame[ETH_LEN + 9]) {
		case IPPROTO_ESP:
			*spi = fragment ? 0 : ETH_LEN + length;
			return true;
		case IPPROTO_AH:
			*spi = fragment ? 0 : ETH_LEN + length + 4;
			return true;
		case IPPROTO_UDP:
			if (fragment)
				return true;
			if (length < 20 || frame + ETH_LEN + length + 4 > end)
				return false;
			*spi = ETH_LEN + length + 8;
			return is_esp_port(*(__be16 *)(frame + ETH_LEN + length + 2));
		}
		return false;
	case ETH_P_IPV6:
		if (frame + ETH_LEN + IPV6_LEN + 4 > end)
			return false;
		switch (frame[ETH_LEN + 6]) {
		case IPPROTO_ESP:
			*spi = ETH_LEN + IPV6_LEN;
			return true;
		case IPPROTO_AH:
			*spi = ETH_LEN + IPV6_LEN + 4;
			return true;
		case IPPROTO_FRAGMENT:
			return true;
		case IPPROTO_UDP:
			*spi = ETH_LEN + IPV6_LEN + 8;
			return is_esp_port(*(__be16 *)(frame + ETH_LEN + IPV6_LEN + 2));
		}
		return false;
	}
	return false;
}

/* The queue for an outer packet in a frame, whose header is there. */
static __always_inline __u32 queue_of_frame(struct xdp_md *ctx, const struct rvl_split *value, __u32 spi)
{
	const __u8 *frame = (const __u8 *)(long)ctx->data;
	const __u8 *end = (const __u8 *)(long)ctx->data_end;
	struct rvl_sa_name name = {};
	__u32 dscp;

	if (frame + ETH_LEN + 20 > end)
		return value->queues;
	if (*(__be16 *)(frame + 12) == bpf_htons(ETH_P_IP)) {
		dscp = frame[ETH_LEN + 1] >> 2;
		name.source[10] = 0xff;
		name.source[11] = 0xff;
		__builtin_memcpy(name.source + 12, frame + ETH_LEN + 12, 4);
	} else {
		if (frame + ETH_LEN + IPV6_LEN > end)
			return value->queues;
		dscp = (frame[ETH_LEN] & 0xf) << 2 | frame[ETH_LEN + 1] >> 6;
		__builtin_memcpy(name.source, frame + ETH_LEN + 8, 16);
	}
	if (!spi || bpf_xdp_load_bytes(ctx, spi, &name.spi, 4) || !name.spi)
		return value->queues;
	return queue_of_sa(value, &name, dscp);
}

/*
 * What its queue has no room for ends here. The rx ring of a socket has room for as many frames as its queue takes, and the fill ring for all
 * of them, so a flood of one class takes no chunk that another needs.
 */
SEC("xdp")
int frames(struct xdp_md *ctx)
{
	const __u8 *frame = (const __u8 *)(long)ctx->data;
	const struct rvl_split *value;
	__u32 spi = 0, queue = 0;

	if (ctx->rx_queue_index || !is_outer(frame, (const __u8 *)(long)ctx->data_end, &spi) || !is_for_us(ctx))
		return XDP_PASS;
	value = split_of_sockets();
	if (value) {
		queue = queue_of_frame(ctx, value, spi);
		if (!takes(queue, 1))
			return XDP_DROP;
	}
	return bpf_redirect_map(&frame_sockets, queue, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
