#!/bin/sh
# A program under a lease: lease_client.sh KEY SIZE PROGRAM [WORD...]   (curl and sed)
socket=${BERTH_SOCKET:-/run/berth/berth.sock}
call() { # METHOD PATH [JSON]
  curl -sS --unix-socket "${socket#unix:}" -X "$1" "http://localhost$2" ${3:+-d "$3"}
}
text() { printf '%s' "$lease" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
number() { printf '%s' "$lease" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

key=$1 size=$2
shift 2
lease=$(call POST /v1/leases "{\"key\": \"$key\", \"memory\": \"$size\"}") || exit 1
while [ "$(text state)" = waiting ]; do
  echo "$key waits: $(text message)" >&2
  lease=$(call GET "/v1/leases/$(text id)?wait=60&version=$(number version)") || exit 1
done
[ "$(text state)" = granted ] || { echo "no lease: $lease" >&2 && exit 1; }
id=$(text id)
for name in CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES BERTH_LEASE_ID BERTH_JOURNAL_ID BERTH_GRANT_DIR; do
  [ -z "$(text $name)" ] || export "$name=$(text $name)"
done
guard=$(text LD_PRELOAD) pause=$(($(number ttl_seconds) / 3))
# In a session of its own, which counts as the lease's; it starts when the lease is confirmed, not before.
gate=$(mktemp -u) && mkfifo "$gate" || exit 1
# shellcheck disable=SC2016  # the inner shell expands them
setsid env ${guard:+LD_PRELOAD="$guard"} sh -c 'read -r _ <"$0" && exec "$@"' "$gate" "$@" &
work=$!
lease=$(call POST "/v1/leases/$id/confirm" "{\"pid\": $work}")
[ "$(text state)" = active ] || { kill "$work" && echo "no lease: $lease" >&2 && exit 1; }
echo >"$gate" && rm "$gate"
(while sleep "$pause"; do call POST "/v1/leases/$id/renew" >/dev/null || :; done) &
renewer=$!
wait "$work"
code=$?
kill "$renewer"
call POST "/v1/leases/$id/release" >/dev/null
exit "$code"
