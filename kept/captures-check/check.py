import sys,os,json,subprocess,collections,hashlib,socket
from multiprocessing import Pool
from flows import load
R=os.environ.get('RAVELIN','/work/wt/caps/target/debug/ravelin'); OUT=os.environ.get('OUT','/tmp/captures/out'); os.makedirs(OUT,exist_ok=True)
DISHONEST={'badsum','badipsum','malformed','iplen','fragoverlap','fragmissing','truncated','short','udplen','udp6zero'}
CB={'midstream','hole','contradict','neg','fin2','synack2','synackack','syndata','rstdata','onesided'}
def classify(f):
    r,o,u,x,t=load(f)
    why=set(k for k in r.flags if k in DISHONEST)
    for c in o:
        why|=c.bad&CB
        a,b=(list(c.h.values())*2)[:2]
        for h,o_ in ((a,b),(b,a)):
            if o_.isn is not None and h.acked>len(o_.data)+(0 if o_.fin is None else 1) : why.add('acklost')
    return r,o,u,x,t,why
def scrub(f,out,*args):
    p=subprocess.run([R,'scrub',f,out,'--json',*args],capture_output=True,text=True,timeout=300)
    s=None;drops=[]
    for l in p.stdout.splitlines():
        try:j=json.loads(l)
        except ValueError: continue
        if 'summary' in j: s=j['summary']
        elif j['verdict']=='drop': drops.append((j['index'],j.get('rule') or j.get('reason')))
    return s,drops,p.returncode,p.stderr
def streams(order):
    # contents by connection: ends and number
    return {(c.ends[0] if c.first else min(c.ends),c.ends[1] if c.first else max(c.ends),c.h[c.ends[0]].isn if c.first else None):c for c in order}
def one(f):
    b=os.path.basename(f); res={'f':b}
    try:
        r,o,u,x,t,why=classify(f)
        res.update(flags=dict(r.flags),why=sorted(why),ip=t,tcp=len(o),maybe=sorted(set().union(*[c.bad for c in o]) if o else []))
        off=['--offload'] if r.flags.get('offload') or r.flags.get('udplen0') else []
        for prof in ('standard','minimal','strict'):
            out=f'{OUT}/{b}.{prof}'
            s,drops,rc,err=scrub(f,out,'--profile',prof,*off)
            q={'rc':rc,'err':err[:200]}
            if s: q.update(dropped=s['dropped'],written=s['written'],packets=s['packets'],unscrubbed=s.get('unscrubbed_ip'),emitted=s['emitted'],hints=s.get('hints'))
            q['drops']=dict(collections.Counter(d[1] for d in drops)); q['first']={k:n for n,k in reversed(drops)}
            res[prof]=q
            if not s or rc: continue
            s2,d2,rc2,e2=scrub(out,out+'.2','--profile',prof,*off)
            q['idem']=open(out,'rb').read()==open(out+'.2','rb').read()
            if not q['idem']: q['idemdrops']=dict(collections.Counter(d[1] for d in d2))
            os.unlink(out+'.2')
            r2,o2,u2,x2,t2=load(out)
            q['flags']=dict(r2.flags)
            q['contra']=sum(h.contra for c in o2 for h in c.h.values())
            A=streams(o);B=streams(o2); diff=[]
            for k,c in A.items():
                e=B.get(k)
                for end,h in c.h.items():
                    if not h.data: continue
                    h2=e.h.get(end) if e else None
                    if h2 is None or bytes(h2.data)!=bytes(h.data) or h2.have!=h.have: diff.append((c.n,len(h.data),len(h2.data) if h2 else None,sorted(c.bad)))
            q['diff']=diff[:20]; q['ndiff']=len(diff)
            q['udplost']=sum((u-u2).values()); q['udpnew']=sum((u2-u).values())
    except Exception as e:
        import traceback; res['error']=traceback.format_exc()[-600:]
    return res
if __name__=='__main__':
    fs=sorted('all/'+x for x in os.listdir('all')) if len(sys.argv)<2 else sys.argv[1:]
    with Pool(2) as p, open(OUT+'.json','w') as w:
        for r in p.imap_unordered(one,fs): w.write(json.dumps(r)+'\n'); w.flush()
