# FUSE at argv[1]: argv[3] seconds before each answer ("no such file"); serves argv[2] seconds
import os,sys,struct,ctypes,time,threading
libc=ctypes.CDLL(None,use_errno=True); fd=os.open('/dev/fuse',os.O_RDWR); mnt=sys.argv[1]; delay=float(sys.argv[3])
if libc.mount(b"rvw",mnt.encode(),b"fuse",0,b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other"%fd): print(os.strerror(ctypes.get_errno())); sys.exit(1)
def rep(u,p=b'',e=0):
    try: os.write(fd,struct.pack('<IiQ',16+len(p),-e,u)+p)
    except OSError: pass
def later(op,u):
    time.sleep(delay)
    if op==3: rep(u,struct.pack('<QII',0,0,0)+struct.pack('<6Q10I',1,0,0,1,1,1,0,0,0,0o40755,1,0,0,0,4096,0))
    else: rep(u,e=2)
def serve():
    while True:
        try: b=os.read(fd,1<<20)
        except OSError: return
        ln,op,u,node=struct.unpack_from('<IIQQ',b)
        if op==26: rep(u,struct.pack('<IIIIHHIIHHII',7,31,131072,0,16,12,131072,1,32,0,0,0)+b'\0'*24)
        elif op in (2,42,36): pass
        else: threading.Thread(target=later,args=(op,u),daemon=True).start()
threading.Thread(target=serve,daemon=True).start()
print("slow",flush=True); time.sleep(float(sys.argv[2])); libc.umount2(mnt.encode(),2)
