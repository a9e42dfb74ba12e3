// The fault proxy of the test cluster. Go's standard library only.
module berth.dev/tests/cluster/faultproxy

go 1.26.0
