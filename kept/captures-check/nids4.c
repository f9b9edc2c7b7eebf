#include <arpa/inet.h>
#include <nids.h>
#include <stdio.h>
#include <string.h>
static void end(unsigned a,int p){struct in_addr i={a};printf("%s,%d ",inet_ntoa(i),p);}
static void stream(struct tcp_stream*t,void**u){(void)u;
 if(t->nids_state==NIDS_JUST_EST){t->server.collect=t->client.collect=1;return;}
 if(t->nids_state==NIDS_DATA){
  struct half_stream*h=t->server.count_new?&t->server:&t->client;
  if(!h->count_new)return;
  if(t->server.count_new){end(t->addr.saddr,t->addr.source);end(t->addr.daddr,t->addr.dest);}
  else{end(t->addr.daddr,t->addr.dest);end(t->addr.saddr,t->addr.source);}
  for(int i=0;i<h->count_new;i++)printf("%02x",(unsigned char)h->data[i]);putchar('\n');}}
static void q(int a,int b,struct ip*c,void*d){(void)a,(void)b,(void)c,(void)d;}
int main(int c,char**v){nids_params.filename=v[1];nids_params.scan_num_hosts=0;nids_params.syslog=q;nids_params.n_tcp_streams=65536;
 if(c<2||!nids_init()){fprintf(stderr,"%s\n",nids_errbuf);return 1;}
 nids_register_tcp(stream);nids_run();return 0;}
