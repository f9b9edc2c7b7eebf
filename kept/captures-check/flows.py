import struct,collections
from parse import Reader
M=1<<32
def d32(a,b): 
    x=(a-b)&(M-1); return x-M if x>=M//2 else x
class Half:
    def __init__(s): s.isn=None; s.data=bytearray(); s.have=bytearray(); s.fin=None; s.acked=0; s.contra=0; s.neg=0; s.front=0; s.ts=None
    def put(s,o,b):
        if o<0: 
            s.neg+=1; b=b[-o:]; o=0
        e=o+len(b)
        if e>50_000_000: s.neg+=1; return
        if e>len(s.data): s.data.extend(bytes(e-len(s.data))); s.have.extend(bytes(e-len(s.have)))
        if s.have.find(1,o,e)<0: s.data[o:e]=b; s.have[o:e]=b'\1'*len(b); return
        for i,x in enumerate(b):
            if s.have[o+i]:
                if s.data[o+i]!=x: s.contra+=1
            else: s.data[o+i]=x; s.have[o+i]=1
    def prefix(s):
        i=s.have.find(0); return bytes(s.data if i<0 else s.data[:i])
    def hole(s): return s.have.find(0)>=0
class Conn:
    def __init__(s,a,b,n): s.ends=(a,b); s.h={a:Half(),b:Half()}; s.n=n; s.first='';s.pk=[]; s.bad=set(); s.rst=False
def load(path):
    r=Reader(); cons=collections.defaultdict(list); udp=collections.Counter(); other=collections.Counter(); order=[]
    tot=0
    for p in r.read(path):
        tot+=1
        if p.proto==17:
            if len(p.pay)>=8:
                l=struct.unpack('>H',p.pay[4:6])[0] or len(p.pay)
                udp[(p.src,p.dst,p.pay[:4],bytes(p.pay[8:l]))]+=1
            continue
        if p.proto!=6: other[(p.src,p.dst,p.proto,bytes(p.pay))]+=1; continue
        b=p.pay
        if len(b)<20: continue
        sp,dp,seq,ack,of,fl=struct.unpack('>HHIIBB',b[:14]); h=(of>>4)*4; data=b[h:]
        if h<20 or h>len(b): continue
        A=(p.src,sp);B=(p.dst,dp); k=tuple(sorted((A,B)))
        l=cons[k]
        syn,ackf,rst,fin=fl&2,fl&16,fl&4,fl&1
        if syn and not ackf:
            if not l or l[-1].h[A].isn!=seq or l[-1].first!=A:
                c=Conn(A,B,p.n); c.first=A; l.append(c); order.append(c)
                c.h[A].isn=seq
            c=l[-1]; c.pk.append(p.n); 
            if data: c.bad.add('syndata')
            continue
        if not l:
            c=Conn(A,B,p.n); c.bad.add('midstream'); l.append(c); order.append(c)
        c=l[-1]; c.pk.append(p.n)
        H=c.h[A];O=c.h[B]
        if syn:
            if H.isn is None: H.isn=seq
            elif H.isn!=seq: c.bad.add('synack2')
            if d32(ack,((O.isn or 0)+1)): c.bad.add('synackack')
            continue
        if H.isn is None and not rst: c.bad.add('midstream'); H.isn=(seq-1)%M
        if ackf and O.isn is not None:
            H.acked=max(H.acked,d32(ack,(O.isn+1)%M))
            # an acknowledgment of what was not (yet) in the capture
            if O.front<d32(ack,(O.isn+1)%M)-(0 if O.fin is None else 1) and not rst: c.bad.add('acklost')
        if rst:
            c.rst=True
            if data: c.bad.add('rstdata')
            continue
        o=d32(seq,(H.isn+1)%M)
        if data:
            # keep-alives probe one octet in front
            if o+len(data)<=H.front and o<0: c.bad.add('old')
            H.put(o,data)
            if o+len(data)>H.front: H.front=o+len(data)
        if fin:
            e=o+len(data)
            if H.fin is not None and H.fin!=e: c.bad.add('fin2')
            H.fin=e; 
            if e>H.front: c.bad.add('finhole')
    r.close()
    for c in order:
        for h in c.h.values():
            if h.hole(): c.bad.add('hole')
            if h.contra: c.bad.add('contradict')
            if h.neg: c.bad.add('neg')
        hs=list(c.h.values())
        if len(hs)>1 and any(h.isn is None for h in hs) and len(c.pk)>1 and not c.rst and any(h.data or h.fin for h in hs): c.bad.add('onesided')
    return r,order,udp,other,tot
