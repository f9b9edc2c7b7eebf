# R: a frame with two tags of VLAN 0 by lo (or another device). argv: dev dstmac 4|6 src sport dst dport text ntags
import socket,struct,sys,os
print("uid",os.getuid(),[l for l in open('/proc/self/status') if l.startswith('CapEff')][0].strip())
dev,mac,fam,src,sp,dst,dp,text,n=sys.argv[1:10]; text=text.encode()
def cs(b):
    if len(b)%2: b+=b'\0'
    t=sum(struct.unpack('!%dH'%(len(b)//2),b))
    while t>>16: t=(t&0xffff)+(t>>16)
    return ~t&0xffff
if fam=='4':
    a,b=socket.inet_aton(src),socket.inet_aton(dst)
    u=struct.pack('!HHHH',int(sp),int(dp),8+len(text),0)+text
    h=struct.pack('!BBHHHBBH4s4s',0x45,0,20+len(u),1,0,64,17,0,a,b); h=h[:10]+struct.pack('!H',cs(h))+h[12:]; et=0x800; ip=h+u
else:
    a,b=socket.inet_pton(10,src),socket.inet_pton(10,dst)
    u=struct.pack('!HHHH',int(sp),int(dp),8+len(text),0)+text
    c=cs(a+b+struct.pack('!II',len(u),17)+u); u=u[:6]+struct.pack('!H',c)+u[8:]
    ip=struct.pack('!IHBB',0x60000000,len(u),17,64)+a+b+u; et=0x86dd
f=bytes.fromhex(mac.replace(':',''))+b'\0'*6+struct.pack('!HH',0x8100,0)*int(n)+struct.pack('!H',et)+ip
s=socket.socket(17,socket.SOCK_RAW,0); s.bind((dev,0)); print("sent",s.send(f))
