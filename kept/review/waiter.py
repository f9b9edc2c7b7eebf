import socket,sys
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('192.0.2.1',6000)); s.connect(('192.0.2.2',9999)); s.settimeout(5); print("mark %#x"%s.getsockopt(1,36),flush=True)
s.setsockopt(0,11,1) # IP_RECVERR: errors as they come
while True:
    try: print(s.recv(100))
    except TimeoutError: break
    except OSError as e: print("protected socket got:",e,flush=True)
print("no more")
