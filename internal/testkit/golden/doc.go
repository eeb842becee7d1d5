// Package golden has the parts that the recorder of the golden requests (examples/tools/golden)
// and the test that compares with them (package cri/pods) share: the simulated node, the
// in-memory runtime, and the format of a recorded request. Sharing them keeps recorded and
// compared requests comparable.
//
// The folder cri/pods/testdata/golden contains
//
//	environment.json  the node: its name, addresses, memory, name servers, images
//	pods/NAME.yaml    manifests, one subject each, written by hand
//	NAME.json         a Record: the upstream kubelet's requests to the runtime
//	recorded.json     the circumstances of the recording
//	cgroup2/          records of the pods about resources, on cgroup v2
//	options/          records of some pods with other settings than the defaults
//	cluster/          manifests, objects and records of pods that need an API server
//
// Only the recorder writes records. They contain no invented values. Each value that varies
// between recordings is either fixed by the environment or replaced by a word in capital
// letters.
package golden
