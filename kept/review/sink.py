import socket,sys
l=socket.socket(socket.AF_INET,socket.SOCK_STREAM,262); l.setsockopt(1,2,1); l.bind(('192.0.2.2',7500)); l.listen(5); l.settimeout(15); c,a=l.accept(); c.settimeout(9)
try:
    while 1:
        d=c.recv(200)
        if not d: break
        print("PEER read:",d,flush=True)
except OSError as e: print("PEER:",e)
