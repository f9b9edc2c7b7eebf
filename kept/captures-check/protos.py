import json,collections,os
from parse import *
tot=collections.Counter()
for r in map(json.loads,open('out.json')):
    if 'error' in r: continue
    d=r['standard']['drops']
    for k in ('4.17','I.2','I.3','I.4','T.8','ip_version','6.12','I.1'):
        if k in d:
            c=collections.Counter()
            for p in Reader().read('all/'+r['f']):
                if k=='4.17' and p.proto not in(1,6,17,50,51,58,132): c[p.proto]+=1
                if k[0]=='I' and p.proto in(1,58) and p.pay: c[(p.v,p.pay[0],p.pay[1])]+=1
            print(k,d[k],r['f'],not r['why'],r['standard']['first'][k],dict(c))
