import socket,sys,time
if sys.argv[1]=='s':
    l=socket.socket(socket.AF_INET,socket.SOCK_STREAM,262); l.setsockopt(1,2,1); l.bind(('192.0.2.2',7400)); l.listen(5); l.settimeout(20)
    for _ in range(int(sys.argv[2])):
        c,a=l.accept(); print("server: accepted from",a,flush=True); c.settimeout(5)
        n=0
        try:
            while True:
                d=c.recv(65536)
                if not d: break
                n+=len(d)
        except OSError as e: print("server:",e)
        print("server got",n,flush=True)
else:
    s=socket.socket(socket.AF_INET,socket.SOCK_STREAM,262); s.settimeout(6)
    if len(sys.argv)>2: s.bind((sys.argv[2],0))
    try: s.connect(('192.0.2.2',7400))
    except OSError as e: print("client",sys.argv[2:],e); sys.exit()
    print("client connected from",s.getsockname(),flush=True)
    for i in range(20): s.send(b'MPTCPSECRET'*3000); time.sleep(.05)
    s.close()
