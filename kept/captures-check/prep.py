# unzip, dedupe, drop what is in ../shared
import hashlib,os,gzip,shutil,sys
seen=set()
for r,_,fs in os.walk('/work/shared/captures'):
    for f in fs: seen.add(hashlib.sha256(open(os.path.join(r,f),'rb').read()).hexdigest())
shared=len(seen); n=0; dup=0
os.makedirs('all',exist_ok=True)
M=[bytes.fromhex(m) for m in('a1b2c3d4','d4c3b2a1','a1b23c4d','4d3cb2a1','0a0d0d0a','a1b2cd34','34cdb2a1')]
for r,_,fs in sorted(os.walk('x')):
    for f in sorted(fs):
        b=open(os.path.join(r,f),'rb').read()
        if b[:2]==b'\x1f\x8b':
            try: b=gzip.decompress(b)
            except Exception as e: continue
        if b[:4] not in M: continue
        h=hashlib.sha256(b).hexdigest()
        if h in seen: dup+=1; continue
        seen.add(h)
        suite=r.split('/')[1]
        name=suite+'__'+f.replace(' ','_').replace('/','_')
        if name.endswith('.gz'): name=name[:-3]
        i=0
        while os.path.exists('all/'+name): i+=1; name=f'{i}_'+name
        open('all/'+name,'wb').write(b); n+=1
print(n,'captures',dup,'duplicates')
