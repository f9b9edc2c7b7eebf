/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Classes of outer packets that arrive (docs/design/0042): which socket of the daemon's takes one, and whether that has room.
 *
 * The class is a hint for the place where a packet waits, and no right: the engine finds its association and classifies it again. What names
 * no association of its sender waits behind the classes, in a queue of its own, so that a flood of it takes no place of theirs.
 */
#ifndef RVL_SOCKET_CLASS_H
#define RVL_SOCKET_CLASS_H

/* The octets of a UDP header, behind which the SPI is. */
#define UDP_LEN 8
#define PACKET_MULTICAST 2

/* Read the sender of a packet, and its DSCP, whatever kind of context this is; whether they are there. */
static __always_inline bool read_outer(const void *ctx, bool is_v4, struct rvl_sa_name *name, __u32 *dscp)
{
	__u8 head[2];

	if (bpf_skb_load_bytes_relative(ctx, 0, head, sizeof(head), BPF_HDR_START_NET))
		return false;
	if (is_v4) {
		*dscp = head[1] >> 2;
		name->source[10] = 0xff;
		name->source[11] = 0xff;
		return !bpf_skb_load_bytes_relative(ctx, 12, name->source + 12, 4, BPF_HDR_START_NET);
	}
	*dscp = (head[0] & 0xf) << 2 | head[1] >> 6;
	return !bpf_skb_load_bytes_relative(ctx, 8, name->source, 16, BPF_HDR_START_NET);
}

/*
 * The queue for a datagram. A run of joined ones goes where its first one does. Its octets need not be in the linear part, so they are
 * loaded. The kernel also asks without a packet, which is then answered by its hash.
 */
static __always_inline __u32 queue_of_datagram(struct sk_reuseport_md *md, bool is_v4)
{
	const struct rvl_split *value = split_of_sockets();
	struct rvl_sa_name name = {};
	__u32 dscp = 0;

	if (!value)
		return 0;
	/* Keepalives and IKE name no association: they are shorter, or have a zero there. */
	if (bpf_skb_load_bytes(md, 8, &name.spi, 4) || !name.spi)
		return value->queues;
	if (!read_outer(md, is_v4, &name, &dscp))
		return value->queues;
	return queue_of_sa(value, &name, dscp);
}

/* The socket for a datagram. Where its socket is not there, the datagram goes to the first one, which every daemon has. */
SEC("sk_reuseport")
int udp_class(struct sk_reuseport_md *md)
{
	bool is_v4 = md->eth_protocol == bpf_htons(ETH_P_IP);
	__u32 first = is_v4 ? 0 : RVL_SOCKET_QUEUES;
	__u32 key = first + queue_of_datagram(md, is_v4);

	if (!bpf_sk_select_reuseport(md, &udp_sockets, &key, 0))
		return SK_PASS;
	if (!bpf_sk_select_reuseport(md, &udp_sockets, &first, 0))
		return SK_PASS;
	return SK_DROP;
}

/* The datagrams that a socket gets at once, behind so many octets of headers. */
static __always_inline __u64 datagrams(struct __sk_buff *skb, __u32 headers)
{
	__u32 each = skb->gso_size;

	if (!each || skb->len < headers)
		return 1;
	return (skb->len - headers + each - 1) / each;
}

/* The queue of a place, and whether a raw socket is one for AH. */
#define PLACE_QUEUE 0xff
#define PLACE_AH 0x100

/* The place of the socket that a filter runs for; NULL: it has none. */
static __always_inline const __u32 *place_of_socket(struct __sk_buff *skb)
{
	__u64 cookie = bpf_get_socket_cookie(skb);

	return bpf_map_lookup_elem(&socket_places, &cookie);
}

/* Whether the queue that a UDP socket belongs to takes what came for it. A socket that belongs to none takes everything. */
SEC("socket")
int socket_queue(struct __sk_buff *skb)
{
	const __u32 *place = place_of_socket(skb);

	return !place || takes(*place & PLACE_QUEUE, datagrams(skb, UDP_LEN)) ? skb->len : 0;
}

/* The queue for a bare ESP or AH packet. With IPv4 its header comes first, and with IPv6 what is behind all headers. */
static __always_inline __u32 queue_of_bare(struct __sk_buff *skb, bool is_ah)
{
	const struct rvl_split *value = split_of_sockets();
	bool is_v4 = skb->protocol == bpf_htons(ETH_P_IP);
	struct rvl_sa_name name = {};
	__u32 dscp = 0, at = is_ah ? 4 : 0;
	__u8 first;

	if (!value)
		return 0;
	if (is_v4) {
		if (bpf_skb_load_bytes(skb, 0, &first, 1))
			return value->queues;
		at += (first & 0xf) * 4;
	}
	if (bpf_skb_load_bytes(skb, at, &name.spi, 4) || !read_outer(skb, is_v4, &name, &dscp))
		return value->queues;
	return queue_of_sa(value, &name, dscp);
}

/*
 * Whether a packet is one of the queue that a raw socket belongs to, which has room for it. Each raw socket of the protocol is asked, and
 * gets a copy of what it takes.
 */
SEC("socket")
int raw_queue(struct __sk_buff *skb)
{
	const __u32 *place = place_of_socket(skb);

	if (!place)
		return skb->len;
	if (queue_of_bare(skb, *place & PLACE_AH) != (*place & PLACE_QUEUE))
		return 0;
	return takes(*place & PLACE_QUEUE, 1) ? skb->len : 0;
}

/* What of a frame's packet says where it waits. */
struct frame_packet {
	__u32 headers; /* octets of IP and UDP headers */
	__u32 spi; /* where the SPI is, in octets behind the first; 0: it names no association */
};

/*
 * Find what is in the IP packet of a frame, which begins at the data of the buffer; whether it may be an outer packet. The filter of a packet
 * socket says the same (crates/netio/src/packet/filter.rs). A fragment names no association.
 */
static __always_inline bool find_outer(struct __sk_buff *skb, bool is_v4, struct frame_packet *found)
{
	__be16 fragment = 0, port;
	__u8 next, first;

	found->headers = 40;
	if (is_v4) {
		if (bpf_skb_load_bytes(skb, 0, &first, 1) || bpf_skb_load_bytes(skb, 6, &fragment, 2))
			return false;
		found->headers = (first & 0xf) * 4;
	}
	if (bpf_skb_load_bytes(skb, is_v4 ? 9 : 6, &next, 1))
		return false;
	fragment &= bpf_htons(0x3fff);
	switch (next) {
	case IPPROTO_ESP:
		found->spi = fragment ? 0 : found->headers;
		return true;
	case IPPROTO_AH:
		found->spi = fragment ? 0 : found->headers + 4;
		return true;
	case IPPROTO_FRAGMENT:
		return !is_v4;
	case IPPROTO_UDP:
		if (fragment)
			return true;
		if (bpf_skb_load_bytes(skb, found->headers + 2, &port, 2) || !is_esp_port(port))
			return false;
		found->headers += UDP_LEN;
		found->spi = found->headers;
		return true;
	}
	return false;
}

/* The queue for the packet of a frame. A super-packet goes where its first datagram goes. */
static __always_inline __u32 queue_of_frame(struct __sk_buff *skb, bool is_v4, const struct rvl_split *value, __u32 spi)
{
	struct rvl_sa_name name = {};
	__u32 dscp = 0;

	if (!spi || bpf_skb_load_bytes(skb, spi, &name.spi, 4) || !name.spi || !read_outer(skb, is_v4, &name, &dscp))
		return value->queues;
	return queue_of_sa(value, &name, dscp);
}

/*
 * The packet socket for a frame, among those that share a device (packet fanout): the first one is deaf, and gets what is no outer packet, and
 * what the queue has no room for. The socket of each queue is behind it.
 */
SEC("socket")
int frame_class(struct __sk_buff *skb)
{
	const struct rvl_split *value = split_of_sockets();
	bool is_v4 = skb->protocol == bpf_htons(ETH_P_IP);
	struct frame_packet found = {};
	__u32 queue;

	if (!value)
		return 1;
	if (skb->pkt_type != PACKET_HOST && skb->pkt_type != PACKET_MULTICAST)
		return 0;
	if (skb->vlan_tci & VLAN_ID || (!is_v4 && skb->protocol != bpf_htons(ETH_P_IPV6)) || !find_outer(skb, is_v4, &found))
		return 0;
	queue = queue_of_frame(skb, is_v4, value, found.spi);
	return takes(queue, datagrams(skb, found.headers)) ? 1 + queue : 0;
}

#endif
