#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <arpa/inet.h>
#include <sys/socket.h>
__attribute__((constructor)) static void go(void){ int m=0; socklen_t l=4; int s=socket(AF_INET,SOCK_DGRAM,0); getsockopt(s,SOL_SOCKET,36,&m,&l); struct sockaddr_in d={.sin_family=AF_INET,.sin_port=htons(9999)}; inet_pton(AF_INET,"192.0.2.2",&d.sin_addr); char t[]="by LD_PRELOAD"; long n=sendto(s,t,sizeof t-1,0,(void*)&d,sizeof d); printf("mark %#x sent %ld\n",m,n); exit(0); }
