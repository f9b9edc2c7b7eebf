"""Own reading of captures: link, IP, transport; no code of the project."""
import struct, dpkt, socket, collections
def frames(path):
    f=open(path,'rb'); m=f.read(4); f.seek(0)
    if m==b'\x0a\x0d\x0d\x0a':
        yield from ng(f); return
    h=f.read(24)
    e={b'\xd4\xc3\xb2\xa1':'<',b'\xa1\xb2\xc3\xd4':'>',b'\x4d\x3c\xb2\xa1':'<',b'\xa1\xb2\x3c\x4d':'>',b'\x34\xcd\xb2\xa1':'<',b'\xa1\xb2\xcd\x34':'>'}[m]
    link=struct.unpack(e+'I',h[20:24])[0]&0xffff
    mod=m in(b'\x34\xcd\xb2\xa1',b'\xa1\xb2\xcd\x34')
    div=1e9 if m in(b'\x4d\x3c\xb2\xa1',b'\xa1\xb2\x3c\x4d') else 1e6
    while True:
        r=f.read(24 if mod else 16)
        if len(r)<16: return
        s,u,c,w=struct.unpack(e+'IIII',r[:16])
        d=f.read(c)
        if len(d)<c: return
        yield link,s+u/div,d,w
def ng(f):
    ifs=[];e='<'
    while True:
        h=f.read(8)
        if len(h)<8:return
        t=struct.unpack('<I',h[:4])[0]
        if t==0x0a0d0d0a:
            bom=f.read(4); e='<' if bom==b'\x4d\x3c\x2b\x1a' else '>'
            n=struct.unpack(e+'I',h[4:])[0]; f.read(n-12); ifs=[]; continue
        t,n=struct.unpack(e+'II',h)
        if n<12: return
        b=f.read(n-8)[:-4]
        if len(b)<n-12:return
        if t==1: ifs.append(struct.unpack(e+'HHI',b[:8])[0::2])
        elif t==6:
            i,hi,lo,c,w=struct.unpack(e+'IIIII',b[:20])
            if i>=len(ifs): return
            yield ifs[i][0],(hi<<32|lo)/1e6,b[20:20+c],w
        elif t==3:
            w=struct.unpack(e+'I',b[:4])[0]; l,s=ifs[0]; c=min(w,s) if s else w
            yield l,0.0,b[4:4+c],w
        elif t==2:
            i,_,hi,lo,c,w=struct.unpack(e+'HHIIII',b[:20]); yield ifs[i][0],0.0,b[20:20+c],w
def ether(d,o,t):
    """(offset, None) of IP or why not"""
    for _ in range(8):
        if t in(0x8100,0x88a8,0x9100): t=struct.unpack('>H',d[o+2:o+4])[0]; o+=4
        elif t==0x8864:
            p=struct.unpack('>H',d[o+6:o+8])[0]; return ppp(d,o+8,p)
        elif t in(0x8847,0x8848):
            while not d[o+2]&1: o+=4
            o+=4; return (o,None) if d[o]>>4 in(4,6) else (None,'mpls')
        elif t in(0x0800,0x86dd): return (o,None)
        else: break
    if t<1536 and d[o:o+3]==b'\xaa\xaa\x03' : return ether(d,o+8,struct.unpack('>H',d[o+6:o+8])[0])
    if t<1536 and d[o:o+3]==b'\x06\x06\x03' : return (o+3,None)
    return None,'ether %04x'%t
def ppp(d,o,p=None):
    if p is None:
        if d[o]==0xff: o+=2
        if d[o]&1: p=d[o]; o+=1
        else: p=struct.unpack('>H',d[o:o+2])[0]; o+=2
    return (o,None) if p in(0x21,0x57) else (None,'ppp %04x'%p)
def ip(link,d):
    try:
        if link==1: return ether(d,14,struct.unpack('>H',d[12:14])[0])
        if link in(12,101,14,228,229): return 0,None
        if link==0: 
            x=struct.unpack('<I',d[:4])[0]; x=x if x<65536 else struct.unpack('>I',d[:4])[0]
            return (4,None) if x in(2,10,23,24,28,30) else (None,'null')
        if link==108: return 4,None
        if link==113: return ether(d,16,struct.unpack('>H',d[14:16])[0])
        if link==276: return ether(d,20,struct.unpack('>H',d[0:2])[0])
        if link in(9,50,): return ppp(d,0)
        if link==104: return ether(d,4,struct.unpack('>H',d[2:4])[0])
        if link==51: return ether(d,0,0x8864)
        if link==10 or link==123 or link==100: return ether(d,0 if link!=10 else 13,0)
    except (IndexError,struct.error): return None,'short'
    return None,'link %d'%link
def csum(b):
    if len(b)&1:b+=b'\0'
    s=sum(struct.unpack('>%dH'%(len(b)//2),b))
    while s>>16:s=(s&0xffff)+(s>>16)
    return s
P=collections.namedtuple('P','n time v src dst proto pay frag ttl why opts off')
class Fault(Exception): pass
class Reader:
    def __init__(s): s.frags={}; s.flags=collections.Counter(); s.fl={}
    def flag(s,n,w): s.flags[w]+=1; s.fl.setdefault(w,n)
    def read(s,path):
        n=0
        for link,t,d,w in frames(path):
            n+=1
            o,why=ip(link,d)
            if why:
                s.flag(n,'noip:'+why); continue
            if o is None or o>=len(d): s.flag(n,'short'); continue
            if len(d)<w: s.flag(n,'truncated')
            p=s.packet(n,t,d[o:],w-o)
            if p: yield p
    def packet(s,n,t,b,w):
        v=b[0]>>4
        if v==4:
            if len(b)<20: s.flag(n,'malformed'); return
            h=(b[0]&15)*4; l=struct.unpack('>H',b[2:4])[0]
            if h<20 or h>len(b): s.flag(n,'malformed'); return
            if l==0: s.flag(n,'offload'); l=len(b)
            if l<h: s.flag(n,'malformed'); return
            if l>len(b):
                s.flag(n,'truncated' if len(b)<w else 'iplen')
            c=b[10:12]
            if c==b'\0\0' and csum(b[:h])!=0xffff: s.flag(n,'offload')
            elif csum(b[:h])!=0xffff: s.flag(n,'badipsum')
            if h>20: s.flag(n,'ipoptions')
            fo=struct.unpack('>H',b[6:8])[0]; src,dst=b[12:16],b[16:20]; proto=b[9]; ttl=b[8]
            pay=b[h:l]
            if fo&0x3fff:
                pay=s.frag(n,(v,src,dst,proto,b[4:6]),(fo&0x1fff)*8,bool(fo&0x2000),pay)
                if pay is None: return
        elif v==6:
            if len(b)<40: s.flag(n,'malformed'); return
            l=struct.unpack('>H',b[4:6])[0]; 
            if l==0: l=len(b)-40; s.flag(n,'offload')
            if l+40>len(b): s.flag(n,'truncated' if len(b)<w else 'iplen')
            src,dst=b[8:24],b[24:40]; proto=b[6]; ttl=b[7]; pay=b[40:40+l]
            while proto in(0,43,60,44):
                if len(pay)<8: s.flag(n,'malformed'); return
                if proto==44:
                    fo=struct.unpack('>H',pay[2:4])[0]; ident=pay[4:8]; nx=pay[0]
                    if fo&0xfff9:
                        pay=s.frag(n,(v,src,dst,ident),fo&0xfff8,bool(fo&1),pay[8:])
                        if pay is None:return
                    else: pay=pay[8:]
                    proto=nx; continue
                proto,pay=pay[0],pay[(pay[1]+1)*8:]
        else: s.flag(n,'malformed'); return
        if proto in(4,41) and pay and pay[0]>>4==(4 if proto==4 else 6):
            s.flag(n,'tunnel'); return s.packet(n,t,pay,len(pay))
        if proto==51: s.flag(n,'ah')
        p=P(n,t,v,src,dst,proto,pay,None,ttl,None,None,None)
        s.transport(p); return p
    def frag(s,n,k,o,more,pay):
        g=s.frags.setdefault(k,[{},None])
        if o in g[0] and g[0][o]!=pay: s.flag(n,'fragoverlap')
        g[0][o]=pay
        if not more: g[1]=o+len(pay)
        if g[1] is None: return
        x=0;out=b''
        for q in sorted(g[0]):
            if q<x: s.flag(n,'fragoverlap')
            if q>x: return
            out+=g[0][q]; x=q+len(g[0][q])
        if x!=g[1]: return
        del s.frags[k]; return out
    def transport(s,p):
        if p.proto not in(6,17): return
        b=p.pay
        if p.proto==17:
            if len(b)<8: s.flag(p.n,'malformed'); return
            l=struct.unpack('>H',b[4:6])[0]
            if l==0 : s.flag(p.n,'udplen0')
            elif l!=len(b): s.flag(p.n,'udplen' if l>len(b) and not s.fl.get('truncated')==p.n else 'udptail'); 
            b=b[:l] if l else b; c=b[6:8]
            if c==b'\0\0':
                if p.v==6: s.flag(p.n,'udp6zero')
                return
        else:
            if len(b)<20 or (b[12]>>4)*4<20 or (b[12]>>4)*4>len(b): s.flag(p.n,'malformed'); return
            c=b[16:18]
        ph=p.src+p.dst+struct.pack('>HH',p.proto,len(b)) if p.v==4 else p.src+p.dst+struct.pack('>IHBB',len(b),0,0,p.proto)
        if csum(ph+b)!=0xffff:
            if s.fl.get('truncated')==p.n: return
            part=csum(ph); got=struct.unpack('>H',c)[0]
            if got==part or got==part^0xffff or (got==0 and p.proto==6): s.flag(p.n,'offload')
            else: s.flag(p.n,'badsum')
    def close(s):
        if s.frags: s.flag(0,'fragmissing')
