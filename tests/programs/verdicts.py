# What policy lets this program do, again and again until it is killed: `verdicts.py PORT ADDRESS...`. Each round sends a datagram from a fresh
# socket to each address (on PORT, and on the port behind it) and connects to it; the round's line says what each call answered.
import errno, socket, sys, time
port = int(sys.argv[1])
targets = [(address, port + more) for address in sys.argv[2:] for more in (0, 1)]

def verdict(call):
    try:
        call()
        return "ok"
    except PermissionError:
        return "EPERM"
    except BlockingIOError:
        return "ok"
    except OSError as error:
        return errno.errorcode[error.errno]

number = 0
while True:
    answers = []
    for target in targets:
        family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as s, socket.socket(family) as t:
            t.setblocking(False)
            answers.append(verdict(lambda: s.sendto(b"v", target)) + "/" + verdict(lambda: t.connect(target)))
    number += 1
    print("round", number, *answers, flush=True)
    time.sleep(0.01)  # the rate
