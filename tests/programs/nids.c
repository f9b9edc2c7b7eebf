/* What libnids reads in a capture: `T PORT HEX` and `D ADDRESS HEX` lines of what comes from outside; `N PORT` where a
   connection begins. */
#include <arpa/inet.h>
#include <nids.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <stdio.h>
#include <string.h>

static void hex(const unsigned char *octets, int len)
{
	for (int i = 0; i < len; i++)
		printf("%02x", octets[i]);
	putchar('\n');
}

static int outside(unsigned int address)
{
	return ntohl(address) != 0xc6336402; /* 198.51.100.2, the host inside */
}

static void stream(struct tcp_stream *tcp, void **unused)
{
	/* Data to the server are those of a client outside; data to the client those of a server outside. */
	int client = outside(tcp->addr.saddr);
	int port = client ? tcp->addr.source : tcp->addr.dest;
	struct half_stream *half = client ? &tcp->server : &tcp->client;
	(void)unused;
	if (tcp->nids_state == NIDS_JUST_EST) {
		tcp->server.collect = tcp->client.collect = 1;
		printf("N %d\n", port);
	} else if (tcp->nids_state == NIDS_DATA && half->count_new) {
		printf("T %d ", port);
		hex((unsigned char *)half->data, half->count_new);
	}
}

static void datagram(struct tuple4 *addr, char *octets, int len, struct ip *ip)
{
	struct in_addr from = {addr->saddr};
	(void)ip;
	if (!outside(addr->saddr))
		return;
	printf("D %s ", inet_ntoa(from));
	hex((unsigned char *)octets, len);
}

static void packet(struct ip *ip, int len)
{
	const unsigned char *upper = (unsigned char *)ip + 4 * ip->ip_hl;
	int octets = ntohs(ip->ip_len) - 4 * ip->ip_hl;
	(void)len;
	if (!outside(ip->ip_src.s_addr))
		return;
	if (ip->ip_p == 253 || (ip->ip_p == 1 && octets > 8 && upper[0] == 8)) {
		int skip = ip->ip_p == 1 ? 8 : 0;
		printf("D %s ", inet_ntoa(ip->ip_src));
		hex(upper + skip, octets - skip);
	}
}

static void quiet(int type, int err, struct ip *ip, void *data)
{
	(void)type, (void)err, (void)ip, (void)data;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	nids_params.filename = argv[1];
	nids_params.scan_num_hosts = 0;
	nids_params.syslog = quiet;
	nids_params.n_tcp_streams = 65536;
	if (!nids_init()) {
		fprintf(stderr, "%s\n", nids_errbuf);
		return 1;
	}
	nids_register_tcp(stream);
	nids_register_udp(datagram);
	nids_register_ip(packet);
	nids_run();
	return 0;
}
