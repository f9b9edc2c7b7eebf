
try:
    globals()[kind]()
    print("done")
except Impossible as error:
    print("impossible:", error)
