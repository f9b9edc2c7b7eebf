# A FUSE file system with one executable, /x, whose inode number is argv[3]. Run in a user and mount namespace of one's own.
# argv: mountpoint file ino -- program to run when mounted
import os,sys,struct,ctypes,threading,subprocess
mnt,src,ino=sys.argv[1],sys.argv[2],int(sys.argv[3]); cmd=sys.argv[5:]
data=open(src,'rb').read()
libc=ctypes.CDLL(None,use_errno=True)
fd=os.open('/dev/fuse',os.O_RDWR)
opts=b"fd=%d,rootmode=40000,user_id=%d,group_id=%d"%(fd,os.getuid(),os.getgid())
if libc.mount(b"rv",mnt.encode(),b"fuse",0,opts): e=ctypes.get_errno(); print("mount:",os.strerror(e)); sys.exit(1)
def attr(node):
    d=node==1
    return struct.pack('<6Q10I',1 if d else ino,0 if d else len(data),0,1,1,1,0,0,0,0o40755 if d else 0o100755,1,os.getuid(),os.getgid(),0,4096,0)
def reply(u,payload=b'',err=0): os.write(fd,struct.pack('<IiQ',16+len(payload),-err,u)+payload)
def serve():
    while True:
        try: b=os.read(fd,1<<20)
        except OSError as e:
            if e.errno in(4,2): continue
            return
        ln,op,u,node=struct.unpack_from('<IIQQ',b)
        body=b[40:]
        if op==26:
            maj,mi=struct.unpack_from('<II',body); reply(u,struct.pack('<IIIIHHIIHHII',7,31,131072,0,16,12,131072,1,32,0,0,0)+b'\0'*24)
        elif op==1:
            n=body.split(b'\0')[0]
            if node==1 and n==b'x': reply(u,struct.pack('<QQQQII',2,0,60,60,0,0)+attr(2))
            else: reply(u,err=2)
        elif op==3: reply(u,struct.pack('<QII',60,0,0)+attr(node))
        elif op in(14,27): reply(u,struct.pack('<QII',0,0,0))
        elif op==15:
            fh,off,size=struct.unpack_from('<QQI',body); reply(u,data[off:off+size])
        elif op==28: reply(u,b'')
        elif op in(18,25,29): reply(u)
        elif op==17: reply(u,struct.pack('<QQQQQIIII24x',0,0,0,0,0,4096,255,4096,0))
        elif op in(2,42,36): pass
        elif op==38: reply(u); return
        else: reply(u,err=38)
threading.Thread(target=serve,daemon=True).start()
pid=os.fork()
if pid==0: os.execv(cmd[0],cmd)
import signal; signal.alarm(15)
os.waitpid(pid,0); os._exit(0)
