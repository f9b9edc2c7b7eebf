# W: ICMP error about 192.0.2.1:6000 > 192.0.2.2:9999. argv: dev mac type code mtu ntags
import socket,struct,sys
dev,mac,ty,co,mtu,n=sys.argv[1],sys.argv[2],*map(int,sys.argv[3:7])
def cs(b):
    t=sum(struct.unpack('!%dH'%(len(b)//2),b))
    while t>>16: t=(t&0xffff)+(t>>16)
    return ~t&0xffff
def ip(src,dst,p,pl):
    h=struct.pack('!BBHHHBBH4s4s',0x45,0,20+len(pl),1,0x4000,64,p,0,socket.inet_aton(src),socket.inet_aton(dst)); return h[:10]+struct.pack('!H',cs(h))+h[12:]+pl
q=ip('192.0.2.1','192.0.2.2',17,struct.pack('!HHHH',6000,9999,1400,0)+b'x'*1392)[:548]
i=struct.pack('!BBHHH',ty,co,0,0,mtu)+q; i=i[:2]+struct.pack('!H',cs(i))+i[4:]
f=bytes.fromhex(mac.replace(':',''))+b'\x02\0\0\0\0\1'+struct.pack('!HH',0x8100,0)*n+b'\x08\0'+ip('192.0.2.2','192.0.2.1',1,i)
s=socket.socket(17,socket.SOCK_RAW,0); s.bind((dev,0)); s.send(f); print("icmp",ty,co,"tags",n)
