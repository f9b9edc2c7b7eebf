# an unnamed helper: connected UDP socket, with or without UDP_ENCAP (any user may set it), inherited as standard input by the protected program
import socket,sys,subprocess
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.connect(('192.0.2.2',9999))
if sys.argv[1]!='0':
    try: s.setsockopt(17,100,int(sys.argv[1])); print("UDP_ENCAP",sys.argv[1],"ok",flush=True)
    except OSError as e: print("UDP_ENCAP",e,flush=True)
subprocess.run([sys.argv[2],'inherit','c',sys.argv[3]],stdin=s,timeout=15)
