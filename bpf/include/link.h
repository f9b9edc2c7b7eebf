/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs on devices ask of a frame first, and how they drop one.
 */
#ifndef RVL_LINK_H
#define RVL_LINK_H

static __always_inline int device_drop(enum rvl_counter counter)
{
	count(counter);
	return TCX_DROP;
}

static __always_inline bool is_ip(const struct __sk_buff *skb)
{
	return skb->protocol == bpf_htons(ETH_P_IP) || skb->protocol == bpf_htons(ETH_P_IPV6);
}

#define VLAN_ID 0x0fff

/*
 * Whether the kernel will take off another VLAN tag behind this program, which has seen the frame without its first one: it does so
 * where the first is a priority tag (VLAN 0). What the frame is then, nobody has looked at.
 */
static __always_inline bool hides_a_tag(const struct __sk_buff *skb)
{
	return skb->vlan_present && !(skb->vlan_tci & VLAN_ID) &&
	       (skb->protocol == bpf_htons(0x8100) || skb->protocol == bpf_htons(0x88a8));
}

#endif
