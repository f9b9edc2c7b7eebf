#define _GNU_SOURCE
#include <stdio.h>
#include <fcntl.h>
#include <time.h>
#include <stdlib.h>
#include <unistd.h>
int main(int c,char**v){ chdir(v[1]); time_t e=time(0)+atoi(v[2]); while(time(0)<e) for(int i=0;i<2000;i++) renameat2(AT_FDCWD,"x",AT_FDCWD,"l",RENAME_EXCHANGE); return 0;}
