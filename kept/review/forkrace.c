#define _GNU_SOURCE
#include <signal.h>
#include <sched.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <time.h>
#include <string.h>
#include <errno.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
// argv: seconds. Forks on one CPU while other processes make sockets on it; a child whose socket has no mark has lost what it was.
int main(int c,char**v){ cpu_set_t s; CPU_ZERO(&s); CPU_SET(1,&s); sched_setaffinity(0,sizeof s,&s);
 double secs=atof(v[1]); pid_t h[3]; for(int i=0;i<3;i++) if(!(h[i]=fork())){ time_t e=time(0)+(int)secs+1; while(time(0)<e) for(int k=0;k<2000;k++){int f=socket(AF_INET,SOCK_DGRAM,0); close(f);} _exit(0);}
 struct timespec a,b; clock_gettime(CLOCK_MONOTONIC,&a); long n=0,lost=0; int base=0; socklen_t l=4; int f=socket(AF_INET,SOCK_DGRAM,0); getsockopt(f,SOL_SOCKET,36,&base,&l); close(f); printf("own mark %#x\n",base);
 do { pid_t p=vfork(); if(!p){ int m=0; socklen_t l=4; int f=socket(AF_INET,SOCK_DGRAM,0); getsockopt(f,SOL_SOCKET,36,&m,&l); if(m!=base){ struct sockaddr_in d={.sin_family=AF_INET,.sin_port=htons(9999)}; inet_pton(AF_INET,"192.0.2.2",&d.sin_addr); char t[]="escaped by a fork"; long w=sendto(f,t,sizeof t-1,0,(void*)&d,sizeof d); _exit(w>0?2:1);} _exit(0);} int st; waitpid(p,&st,0); n++; if(WEXITSTATUS(st)==2) lost++; clock_gettime(CLOCK_MONOTONIC,&b);} while(b.tv_sec-a.tv_sec<secs && lost<20);
 printf("%ld forks, %ld escaped\n",n,lost); for(int i=0;i<3;i++) {kill(h[i],9); waitpid(h[i],0,0);} return 0; }
