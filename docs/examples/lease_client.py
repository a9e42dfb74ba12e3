#!/usr/bin/env python3
"""A program under a lease: lease_client.py KEY SIZE PROGRAM [WORD...]   (standard library only)"""
import http.client, json, os, socket, subprocess, sys, threading

class Daemon(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ.get("BERTH_SOCKET", "/run/berth/berth.sock").removeprefix("unix:"))

def call(method, path, body=None):
    connection = Daemon("localhost", timeout=70)
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())

key, size, *program = sys.argv[1:]
while True:  # reserve and wait; after a loss the same key keeps the place in the queue
    status, lease = call("POST", "/v1/leases", {"key": key, "memory": size})
    while status < 400 and lease["state"] == "waiting":
        print(f"{key} waits: {lease['message']}", file=sys.stderr)
        status, lease = call("GET", f"/v1/leases/{lease['id']}?wait=60&version={lease['version']}")
    if status >= 400:
        sys.exit(f"{lease['error']['message']}: {lease['error']['hint']}")
    if lease["state"] == "granted":
        gate, go = os.pipe()  # the program starts when its lease is confirmed, not before
        held_back = ["sh", "-c", f'read _ <&{gate} && exec "$@"', "sh", *program]
        work = subprocess.Popen(held_back, env={**os.environ, **lease["env"]}, pass_fds=[gate], start_new_session=True)
        if call("POST", f"/v1/leases/{lease['id']}/confirm", {"pid": work.pid})[0] == 200:
            os.write(go, b"\n")
            break
        work.kill()
    elif lease["state"] not in ("expired", "lost"):
        sys.exit(f"the lease of {key} is {lease['state']}: use another key for another try")

def renew(ended=threading.Event()):
    while not ended.wait(lease["ttl_seconds"] / 3):
        if call("POST", f"/v1/leases/{lease['id']}/renew")[0] == 410:
            work.kill()  # the place is gone: so is the right to use it

threading.Thread(target=renew, daemon=True).start()
try:
    code = work.wait()
finally:
    call("POST", f"/v1/leases/{lease['id']}/release")
sys.exit(code)
