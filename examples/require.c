/* Says hello to a TCP server under encryption, the first packet included: cc -I include examples/require.c -o require */
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <ravelin.h>

int main(int argc, char **argv)
{
	uint32_t need = RAVELIN_ENCRYPTION;
	struct timeval patience = { .tv_sec = 5 };
	struct addrinfo *peer, hints = { .ai_socktype = SOCK_STREAM };
	struct ravelin_state state;
	socklen_t size = sizeof(state);
	char answer[100];

	if (argc != 3 || getaddrinfo(argv[1], argv[2], &hints, &peer))
		return 2;
	int fd = socket(peer->ai_family, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (setsockopt(fd, SOL_RAVELIN, RAVELIN_REQUIRE, &need, sizeof(need)))
		return perror("RAVELIN_REQUIRE"), 1;
	if (connect(fd, peer->ai_addr, peer->ai_addrlen))
		return perror("connect"), 1;
	if (write(fd, "hello\n", 6) != 6 || read(fd, answer, sizeof(answer)) < 6)
		return perror("hello"), 1;
	if (getsockopt(fd, SOL_RAVELIN, RAVELIN_STATE, &state, &size))
		return perror("RAVELIN_STATE"), 1;
	printf("%.5s: required %u, in force %u, %llu packets with proof\n", answer, state.required, state.in_force,
	       (unsigned long long)state.proven);
	return 0;
}
