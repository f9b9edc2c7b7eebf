import sys,os,subprocess,socket,collections,tempfile,json
from multiprocessing import Pool
from flows import load
WHICH=sys.argv[1] if len(sys.argv)>1 else 'out'
def ipn(a): return socket.inet_ntop(socket.AF_INET if len(a)==4 else socket.AF_INET6,a)
def ref(f):
    r,o,u,x,t=load(f); n=collections.Counter(); d={}
    for c in o: n[tuple(sorted(c.ends))]+=1
    for c in o:
        if n[tuple(sorted(c.ends))]>1: continue
        if any(h.isn is None for h in c.h.values()) or 'midstream' in c.bad: continue
        for (a,p),h in c.h.items():
            other=[e for e in c.h if e!=(a,p)]
            if not other: continue
            d[(ipn(a),p,ipn(other[0][0]),other[0][1])]=h.prefix()
    return d
def tcpflow(f):
    d={}
    with tempfile.TemporaryDirectory() as t:
        subprocess.run(['tcpflow','-q','-S','enable_report=NO','-T','%A,%a,%B,%b,%c','-o',t,'-r',f],stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL,timeout=120)
        for n in os.listdir(t):
            q=n.split(','); q[0]='.'.join(str(int(x)) for x in q[0].split('.')) if q[0].count('.')==3 else q[0]; q[2:3]=['.'.join(str(int(x)) for x in q[2].split('.')) if len(q)>2 and q[2].count('.')==3 else q[2]] if len(q)>2 else []
            if len(q)<4: continue
            try:k=(ipn(socket.inet_pton(socket.AF_INET6 if ':' in q[0] else socket.AF_INET,q[0])),int(q[1]),ipn(socket.inet_pton(socket.AF_INET6 if ':' in q[2] else socket.AF_INET,q[2])),int(q[3]))
            except (OSError,ValueError): continue
            d[k]=open(os.path.join(t,n),'rb').read()
    return d
def nids(f):
    d=collections.defaultdict(bytes)
    p=subprocess.run(['./nids4',f],capture_output=True,text=True,timeout=120)
    for l in p.stdout.splitlines():
        q=l.split(' ')
        if len(q)!=3: continue
        a,ap=q[0].split(',');b,bp=q[1].split(',')
        d[(a,int(ap),b,int(bp))]+=bytes.fromhex(q[2])
    return d
def tshark(f,ks):
    p=subprocess.run(['tshark','-n','-r',f,'-Y','tcp','-T','fields','-e','tcp.stream'],capture_output=True,text=True,timeout=120)
    ss=[int(x.split(',')[0]) for x in p.stdout.split() if x]
    if not ss: return {}
    d={}; top=min(max(ss),150)
    a=['tshark','-n','-r',f,'-q']+sum([['-z',f'follow,tcp,raw,{s}'] for s in range(top+1)],[])
    t=subprocess.run(a,capture_output=True,text=True,timeout=280).stdout
    for part in t.split('Follow: tcp,raw')[1:]:
        n=[None,None];b=[[],[]]
        for l in part.splitlines():
            if l.startswith('Node '):
                i,e=l[5:].split(': ');h,p=e.rsplit(':',1);n[int(i)]=(h.strip('[]'),int(p))
            elif l.startswith('==='):
                break
            elif l and all(c in '0123456789abcdef\t' for c in l): b[1 if l[0]=='\t' else 0].append(l.strip())
        if None in n: continue
        for i in(0,1): d[(*n[i],*n[1-i])]=bytes.fromhex(''.join(b[i]))
    return d
def scapy(f):
    if os.path.getsize(f)>3_000_000: return {}
    p=subprocess.run(['venv/bin/python','scap.py',f],capture_output=True,text=True,timeout=280); d={}
    for l in p.stdout.splitlines():
        q=l.split(' ')
        if len(q)!=2: continue
        k=bytes.fromhex(q[0])
        if len(k) not in(12,36): continue
        h=4 if len(k)==12 else 16
        a,b=ipn(k[:h]),ipn(k[h:2*h]); dp,sp=int.from_bytes(k[-4:-2],'big'),int.from_bytes(k[-2:],'big')
        d[(a,sp,b,dp)]=bytes.fromhex(q[1])
    return d
def one(f):
    res={'f':os.path.basename(f),'dis':[],'n':collections.Counter(),'short':collections.Counter(),'long':collections.Counter()}
    try:
        R=ref(f)
        if not R: return res
        for name,fn in(('tcpflow',tcpflow),):
            try: D=fn(f)
            except Exception as e: res['dis'].append((name,'error',str(e)[:80])); continue
            for k,s in D.items():
                if k not in R: continue
                r=R[k]; m=min(len(s),len(r)); res['n'][name]+=1
                if s[:m]!=r[:m]:
                    i=next(i for i in range(m) if s[i]!=r[i]); res['dis'].append((name,k,i,len(s),len(r)))
                elif len(s)<len(r): res['short'][name]+=1
                elif len(s)>len(r): res['long'][name]+=1
    except Exception as e: res['dis'].append(('error',repr(e)[:200]))
    return res
if __name__=='__main__':
    ok={json.loads(l)['f'] for l in open('out.json')}
    fs=[WHICH+'/'+x for x in sorted(os.listdir(WHICH)) if WHICH=='all' or x.endswith('.standard')]
    tot=collections.Counter();sh=collections.Counter();lo=collections.Counter();dis=[]
    with Pool(2) as p:
        for r in p.imap_unordered(one,fs):
            tot+=r['n'];sh+=r['short'];lo+=r['long']
            if r['dis']: print(r['f'],len(r['dis']),r['dis'][:2],flush=True); dis.append(r['f'])
    print('streams',dict(tot),'shorter',dict(sh),'longer (behind a hole)',dict(lo),'captures with disagreement',len(dis))
