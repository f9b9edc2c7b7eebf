import json,collections,sys
O=sys.argv[1] if len(sys.argv)>1 else 'out.json'
L=[json.loads(l) for l in open(O)]
err=[r for r in L if 'error' in r]; print('errors',len(err)); [print(r['f'],r['error'][-150:]) for r in err[:5]]
L=[r for r in L if 'error' not in r]
noip=[r for r in L if r['ip']==0]; L2=[r for r in L if r['ip']]
hon=[r for r in L2 if not r['why']]
print('captures',len(L),'with IP',len(L2),'complete and honest',len(hon), 'by suite',collections.Counter(r['f'].split('__')[0].lstrip('0123456789_') for r in hon), 'offload among honest',sum('offload' in r['flags'] for r in hon))
for p in ('standard','minimal','strict'):
    lose=[r for r in hon if r[p].get('dropped')]; cont=[r for r in hon if r[p].get('ndiff') or r[p].get('udplost')]
    print('==',p,'honest losing a packet',len(lose),'%.1f %%'%(100*len(lose)/max(1,len(hon))),'contents',len(cont))
    print('   idem broken (all)',[(r['f'],r[p].get('idemdrops')) for r in L if r[p].get('idem') is False],'contradictions in output',[(r['f'],r[p]['contra']) for r in L if r[p].get('contra')], 'rc', [(r['f'],r[p]['rc'],r[p]['err'][:80]) for r in L if r[p]['rc']] if p=='standard' else '')
    for r in lose: print('  ',r['f'],r['ip'],r[p]['drops'],r[p]['first'],'maybe',r['maybe'],r['flags'])
    for r in cont:
        if r not in lose: print('   CONTENT',r['f'],r[p]['diff'][:3],r[p]['udplost'],r[p]['udpnew'],r['maybe'])
print(collections.Counter(w for r in L2 for w in r['why']))
