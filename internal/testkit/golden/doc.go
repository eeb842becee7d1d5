// Package golden is what the recorder of the golden requests (examples/tools/golden)
// and the test that compares with them (package cri/pods) have in common: the
// node that both pretend to run on, the runtime that answers, and the form in
// which a request is written down. A request that one of them would read
// differently from the other could not be compared.
//
// The folder cri/pods/testdata/golden holds
//
//	environment.json  the node: its name, addresses, memory, name servers, images
//	pods/NAME.yaml    manifests, one subject each, written by hand
//	NAME.json         a Record: what the upstream kubelet asked the runtime for
//	recorded.json     what it was recorded with
//	cgroup2/          records, again, of the pods whose subject is resources: on cgroup v2
//	options/          records, again, of some pods: with other settings than the defaults
//	cluster/          manifests, objects and records of pods that need an API server
//
// Records are written by the recorder only. Nothing in them is made up, and
// everything in them that is not the same each time is either pinned by the
// environment or replaced by a word in capital letters.
package golden
