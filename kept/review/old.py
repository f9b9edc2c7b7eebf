import socket,sys,time
s=socket.socket(socket.AF_INET,socket.SOCK_STREAM,262 if sys.argv[1]=='mp' else 6); s.settimeout(5); s.connect(('192.0.2.2',7500)); s.send(b'before the policy'); print("connected",flush=True); time.sleep(4)
for i in range(6):
    try: s.send(b'SECRET after the policy %d'%i)
    except OSError as e: print(e)
    time.sleep(1)
print("mark %#x"%s.getsockopt(1,36))
