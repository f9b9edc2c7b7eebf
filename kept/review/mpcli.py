import socket,sys,time
s=socket.socket(socket.AF_INET,socket.SOCK_STREAM,262 if sys.argv[1]=='mp' else 6); s.settimeout(10); s.connect(('192.0.2.1',7300)); s.send(b'hello')
try: print("PEER read in clear:",s.recv(60))
except Exception as e: print("PEER read nothing:",e)
s.send(b"clear, after the claim"); time.sleep(1)
