import socket,sys,time
s=socket.socket(socket.AF_INET,socket.SOCK_STREAM,262); s.settimeout(15); s.connect(('192.0.2.2',7400)); time.sleep(.7)
end=time.time()+5; n=0
while time.time()<end and n<60e6: n+=s.send(b'MPTCPSECRET'*6000)
print("client sent",n); s.close()
