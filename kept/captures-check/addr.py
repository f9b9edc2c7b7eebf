import json,collections,os,socket
from parse import *
R=[json.loads(l) for l in open('out.json')]
for r in R:
    if 'error' in r or not r['standard']['drops'].get('4.13'): continue
    c=collections.Counter()
    rd=Reader(); 
    for p in rd.read('all/'+r['f']):
        f=lambda a: socket.inet_ntop(socket.AF_INET if len(a)==4 else socket.AF_INET6,a)
        s,d=f(p.src),f(p.dst)
        cl=lambda a: 'bc' if a=='255.255.255.255' else 'E' if a[0] in '2' and '.' in a and int(a.split('.')[0])>=240 else 'mc' if '.' in a and 224<=int(a.split('.')[0])<240 else '0' if a.startswith('0.') else 'lo' if a.startswith('127.') else 'x' 
        k=(cl(s),cl(d),p.proto)
        if k[0]!='x' or k[1] in('bc','E','0','lo'): c[k]+=1
    print(r['f'],r['standard']['drops']['4.13'],not r['why'],dict(c))
