import socket,struct,sys
dev,mac=sys.argv[1:3]
def cs(b):
    t=sum(struct.unpack('!%dH'%(len(b)//2),b))
    while t>>16: t=(t&0xffff)+(t>>16)
    return ~t&0xffff
def ip(text):
    h=struct.pack('!BBHHHBBH4s4s',0x45,0,28+len(text),1,0,64,17,0,socket.inet_aton('192.0.2.1'),socket.inet_aton('192.0.2.2')); h=h[:10]+struct.pack('!H',cs(h))+h[12:]
    return h+struct.pack('!HHHH',4444,9999,8+len(text),0)+text
m=bytes.fromhex(mac.replace(':',''))+b'\x02\0\0\0\0\2'
for name,head in (('plain',b'\x08\0'),('8100',b'\x81\0\0\0\x08\0'),('9200',b'\x92\0\0\0\x08\0'),('9300',b'\x93\0\0\0\x08\0'),('880b ppp',b'\x88\x0b\0\x21'),('llc fe NLPID',struct.pack('!H',100)+b'\xfe\xfe\3\xcc'),('snap',struct.pack('!H',100)+b'\xaa\xaa\3\0\0\0\x08\0'),('6558 teb',b'\x65\x58'+m+b'\x08\0'),('arp',b'\x08\x06')):
    s=socket.socket(17,socket.SOCK_RAW,0); s.bind((dev,0))
    try: print(name,"sent",s.send(m+head+ip(b'SECRETFRAME '+name.encode())))
    except OSError as e: print(name,e)
