# as root (for newuidmap's part): a child becomes uid 65534, makes a socket, enters its own user namespace with a subordinate uid, and gives the socket to it
import os,socket,sys,ctypes
r,w=os.pipe(); r2,w2=os.pipe(); pid=os.fork()
if pid==0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    print([l.strip() for l in open('/proc/self/status') if l.startswith(('CapEff','Uid'))])
    s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)
    def go(t,s=s):
        try: print(t,"sent",s.sendto(t.encode(),('192.0.2.2',9999)))
        except OSError as e: print(t,e)
    go("as himself")
    ctypes.CDLL(None).unshare(0x10000000); os.write(w,b'x'); os.read(r2,1)
    n=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); go("new socket in the namespace",n)
    os.fchown(s.fileno(),1,-1); print("owner of the socket now (inside)",os.fstat(s.fileno()).st_uid); go("socket given to the subordinate uid",s)
    os._exit(0)
os.read(r,1); open('/proc/%d/uid_map'%pid,'w').write('0 65534 1\n1 100000 1000\n'); open('/proc/%d/gid_map'%pid,'w').write('0 65534 1\n1 100000 1000\n'); os.write(w2,b'x'); os.waitpid(pid,0)
