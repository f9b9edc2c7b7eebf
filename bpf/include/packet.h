/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * IP headers, as far as steering and proof need them. Everything is read relative to the network header, so that
 * devices with and without a link header, cgroup hooks and tcx hooks are all alike.
 */
#ifndef RVL_PACKET_H
#define RVL_PACKET_H

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_HOPOPTS 0
#define IPPROTO_ICMP 1
#define IPPROTO_IPIP 4
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_IPV6 41
#define IPPROTO_ROUTING 43
#define IPPROTO_FRAGMENT 44
#define IPPROTO_ESP 50
#define IPPROTO_AH 51
#define IPPROTO_ICMPV6 58
#define IPPROTO_DSTOPTS 60
#define IPPROTO_DCCP 33
#define IPPROTO_L2TP 115
#define IPPROTO_SCTP 132
#define IPPROTO_UDPLITE 136
#define IPPROTO_RAW 255
#define IP_EXTENSIONS 8

static __always_inline bool has_ports(__u32 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE ||
	       protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP;
}

struct ipv4_header {
	__u8 version_ihl;
	__u8 tos;
	__be16 total_length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__be32 source;
	__be32 destination;
};

struct ipv6_header {
	__be32 version_class_flow;
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u8 source[16];
	__u8 destination[16];
};

/* One address in the common space (IPv4 as ::ffff:a.b.c.d), as bytes on the wire. */
struct address {
	union {
		__u8 bytes[16];
		__be32 words[4];
		__u64 halves[2];
	};
};

struct headers {
	struct address source;
	struct address destination;
	__u32 transport; /* offset of the transport header from the network header */
	__u32 id; /* of a fragment, as on the wire */
	__u32 length; /* of the packet, as its header says; 0: it does not, a super-packet longer than the field can say */
	__u16 source_port;
	__u16 destination_port;
	__u8 version;
	__u8 protocol;
	bool fragment; /* of any kind */
	bool later_fragment; /* without the transport header */
	bool source_route;
};

static __always_inline void mapped(struct address *out, __be32 v4)
{
	out->halves[0] = 0;
	out->words[2] = bpf_htonl(0xffff);
	out->words[3] = v4;
}

static __always_inline bool load(const struct __sk_buff *skb, __u32 offset, void *to, __u32 len)
{
	return bpf_skb_load_bytes_relative(skb, offset, to, len, BPF_HDR_START_NET) == 0;
}

/* Whether the options of an IPv4 header hold a source route (RFC 791: 131 loose, 137 strict). */
static __always_inline bool has_source_route(const struct __sk_buff *skb, __u32 at, __u32 end)
{
	__u8 option[2];
	int i;

	bpf_for(i, 0, 40) {
		if (at >= end || !load(skb, at, option, 1) || option[0] == 0)
			return false;
		if (option[0] == 131 || option[0] == 137)
			return true;
		if (option[0] == 1) {
			at++;
			continue;
		}
		if (!load(skb, at, option, 2) || option[1] < 2)
			return false;
		at += option[1];
	}
	return false;
}

static __always_inline bool parse_ipv4(const struct __sk_buff *skb, const struct ipv4_header *ip, __u32 at,
				       struct headers *h)
{
	__u32 length = (ip->version_ihl & 15) * 4;

	if (length < sizeof(*ip))
		return false;
	mapped(&h->source, ip->source);
	mapped(&h->destination, ip->destination);
	h->version = 4;
	h->length = bpf_ntohs(ip->total_length);
	h->protocol = ip->protocol;
	h->transport = at + length;
	h->fragment = (ip->fragment & bpf_htons(0x3fff)) != 0;
	h->later_fragment = (ip->fragment & bpf_htons(0x1fff)) != 0;
	h->id = ip->id;
	h->source_route = length > sizeof(*ip) && has_source_route(skb, at + sizeof(*ip), at + length);
	return true;
}

static __always_inline bool is_extension(__u8 next)
{
	return next == IPPROTO_HOPOPTS || next == IPPROTO_DSTOPTS || next == IPPROTO_ROUTING || next == IPPROTO_AH || next == IPPROTO_FRAGMENT;
}

static __always_inline bool parse_ipv6(const struct __sk_buff *skb, __u32 at, struct headers *h)
{
	struct ipv6_header ip;
	__u8 next;
	__u8 extension[8];
	int i;

	if (!load(skb, at, &ip, sizeof(ip)))
		return false;
	__builtin_memcpy(&h->source, ip.source, 16);
	__builtin_memcpy(&h->destination, ip.destination, 16);
	h->version = 6;
	h->length = ip.payload_length ? sizeof(ip) + bpf_ntohs(ip.payload_length) : 0;
	at += sizeof(ip);
	next = ip.next_header;
	/* Most packets have no extension header, and need no iterator. */
	if (!is_extension(next)) {
		h->protocol = next;
		h->transport = at;
		return true;
	}
	bpf_for(i, 0, IP_EXTENSIONS) {
		switch (next) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_DSTOPTS:
		case IPPROTO_ROUTING:
			if (!load(skb, at, extension, 2))
				return false;
			if (next == IPPROTO_ROUTING)
				h->source_route = true;
			at += (extension[1] + 1) * 8;
			break;
		case IPPROTO_AH:
			if (!load(skb, at, extension, 2))
				return false;
			at += (extension[1] + 2) * 4;
			break;
		case IPPROTO_FRAGMENT:
			if (!load(skb, at, extension, 8))
				return false;
			h->fragment = true;
			__builtin_memcpy(&h->id, &extension[4], sizeof(h->id));
			if (extension[2] || extension[3] & 0xf8)
				h->later_fragment = true;
			at += 8;
			break;
		default:
			h->protocol = next;
			h->transport = at;
			return true;
		}
		next = extension[0];
		if (h->later_fragment) {
			h->protocol = next;
			h->transport = at;
			return true;
		}
	}
	return false;
}

/*
 * Read the headers of the IP packet that begins `at` octets behind the network header. False: not IP, cut short, or of another version
 * than the packet's type says, which a raw socket that brings its own header can send (IP_HDRINCL).
 * A global function: the verifier proves it once for each program, wherever it is called from.
 */
__noinline int parse(struct __sk_buff *skb, __u32 at, struct headers *h)
{
	struct ipv4_header ip;
	__be16 ports[2];

	if (!h)
		return 0;
	__builtin_memset(h, 0, sizeof(*h));
	/* No header of either version is shorter. */
	if (at > 1024 || !load(skb, at, &ip, sizeof(ip)))
		return 0;
	if (!at && skb->protocol != (ip.version_ihl >> 4 == 4 ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6)))
		return 0;
	if (ip.version_ihl >> 4 == 4) {
		if (!parse_ipv4(skb, &ip, at, h))
			return 0;
	} else if (ip.version_ihl >> 4 == 6) {
		if (!parse_ipv6(skb, at, h))
			return 0;
	} else {
		return 0;
	}
	if (h->later_fragment)
		return 1;
	if (h->protocol == IPPROTO_TCP || h->protocol == IPPROTO_UDP || h->protocol == IPPROTO_UDPLITE ||
	    h->protocol == IPPROTO_SCTP || h->protocol == IPPROTO_DCCP) {
		if (!load(skb, h->transport, ports, sizeof(ports)))
			return 0;
		h->source_port = bpf_ntohs(ports[0]);
		h->destination_port = bpf_ntohs(ports[1]);
	}
	return 1;
}

/*
 * Whether the kernel tells sockets of an ICMP message. Of IPv4: unreachable, source quench, time exceeded, parameter problem. Of IPv6:
 * whatever has the highest bit clear (RFC 4443 section 2.1), of types that nobody has defined too. Redirects are not among them.
 */
static __always_inline bool is_icmp_error(__u8 version, __u8 type)
{
	return version == 4 ? type == 3 || type == 4 || type == 11 || type == 12 : !(type & 128);
}

/* The type of a redirect. */
static __always_inline __u8 redirect_of(__u8 version)
{
	return version == 4 ? 5 : 137;
}

#endif
