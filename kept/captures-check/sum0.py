import json,glob,collections,sys
for p in ('standard','minimal'):
    lost=0;n=0;rules=collections.Counter();empty=0; dr=collections.Counter(); half=0
    for f in glob.glob(f'out0/*.{p}.json'):
        s=None; rs=collections.Counter()
        for l in open(f):
            try:j=json.loads(l)
            except Exception: continue
            if 'summary' in j: s=j['summary']
            elif j.get('verdict')=='drop': rs[j.get('rule') or j.get('reason')]+=1
        if not s: continue
        n+=1
        if s['dropped']: lost+=1
        if s['packets'] and not s['written']: empty+=1
        if s['packets'] and s['written']*2<=s['packets']: half+=1
        for r in rs: rules[r]+=1; dr[r]+=rs[r]
    print(p,n,'lose',lost,'empty',empty,'half',half); print([(r,c,dr[r]) for r,c in rules.most_common()])
