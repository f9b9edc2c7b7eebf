# mounts FUSE at argv[1], answers INIT and nothing else
import os,sys,struct,ctypes,time
libc=ctypes.CDLL(None,use_errno=True); fd=os.open('/dev/fuse',os.O_RDWR); mnt=sys.argv[1]
if libc.mount(b"rvw",mnt.encode(),b"fuse",0,b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other"%fd): print(os.strerror(ctypes.get_errno())); sys.exit(1)
b=os.read(fd,1<<20); ln,op,u,node=struct.unpack_from('<IIQQ',b)
os.write(fd,struct.pack('<IiQ',80,0,u)+struct.pack('<IIIIHHIIHHII',7,31,131072,0,16,12,131072,1,32,0,0,0)+b'\0'*24)
print("silent",flush=True); time.sleep(float(sys.argv[2]))
libc.umount2(mnt.encode(),2)
