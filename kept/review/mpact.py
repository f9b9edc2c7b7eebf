# an unnamed supervisor with an MPTCP listener; the connection becomes the standard input of the protected program
import socket,sys,subprocess,time
l=socket.socket(socket.AF_INET,socket.SOCK_STREAM,262 if sys.argv[1]=='mp' else 6); l.setsockopt(1,2,1); l.bind(('192.0.2.1',7300)); l.listen(5); l.settimeout(10)
c,a=l.accept(); print("supervisor: connection from",a,"listener mark %#x"%l.getsockopt(1,36),flush=True); time.sleep(1.0)
subprocess.run(sys.argv[2:],stdin=c,timeout=25)
