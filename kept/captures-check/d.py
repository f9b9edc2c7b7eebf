from readers import *
for f in ('out/wireshark__http2_follow_multistream.pcapng.standard','all/wireshark__http2_follow_multistream.pcapng'):
    R=ref(f); k=('104.16.40.2',443,'10.9.0.2',59246); s=scapy(f).get(k); r=R.get(k)
    print(f, s==r, len(s or b''),len(r or b''))
    if s and r and s!=r:
        i=next(i for i in range(len(r)) if s[i]!=r[i]); j=max(i for i in range(len(r)) if s[i]!=r[i]); print(i,j,s[i:i+8].hex(),r[i:i+8].hex(), s[i:j+1].count(0))
