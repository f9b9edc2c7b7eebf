import socket,time
s=socket.socket(fileno=0); s.settimeout(6); print("protected: asked",s.recv(50),"mark %#x"%s.getsockopt(1,36),flush=True)
print("protected: sent",s.send(b"SECRET of the protected program "*20),flush=True)
try: print("protected: read after it has sent:",s.recv(50),flush=True)
except OSError as e: print("protected:",e)
time.sleep(5); print("protected: done",flush=True)
