package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const (
	someNode = `
metadata: {name: node-1, uid: u1}
spec: {taints: [{key: k, effect: NoSchedule}]}
status: {conditions: [{type: Ready, status: "False", reason: KubeletNotReady, lastTransitionTime: "2026-01-02T03:04:05Z"}]}
`
	somePods = `
items:
- metadata: {name: web-node-1, uid: u1}
  status:
    phase: Running
    podIP: 10.0.0.1
    conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]
    initContainerStatuses: [{name: i, containerID: c1, restartCount: 0, state: {terminated: {reason: Completed, exitCode: 0}}}]
    containerStatuses: [{name: c, containerID: c2, ready: true, restartCount: 2, state: {running: {}}}, {name: d, state: {waiting: {reason: CrashLoopBackOff}}}]
- metadata: {name: ends, uid: u2, deletionTimestamp: "2026-01-02T03:04:05Z"}
  status: {phase: Failed, reason: Evicted}
`
	someEndpoints = `
items: [{metadata: {name: web}, subsets: [{addresses: [{ip: 10.0.0.1, targetRef: {name: web}}], notReadyAddresses: [{ip: 10.0.0.2}]}]}]
`
	someSlices = `
items:
- metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
  endpoints: [{addresses: [10.0.0.1], targetRef: {name: web}, conditions: {ready: true}}, {addresses: [10.0.0.2], conditions: {ready: false, terminating: true}}]
- metadata: {name: web-2, labels: {kubernetes.io/service-name: web}}
  endpoints: [{addresses: [10.0.0.3], targetRef: {name: sidecar}}]
`
)

func TestReads(t *testing.T) {
	for name, c := range map[string]struct {
		read func([]byte) (objects, error)
		body string
		want objects
	}{
		"no node": {nodeObjects, "", objects{}},
		"node": {nodeObjects, someNode, objects{"node": {
			existence: {version: "u1"}, "taint k:NoSchedule": {text: "set"}, "Ready": {"False", "KubeletNotReady", "2026-01-02T03:04:05Z"},
		}}},
		"pods": {podObjects("node-1"), somePods, objects{
			"pod web": {
				existence: {version: "u1"}, "phase": {text: "Running"}, "IP": {text: "set", version: "10.0.0.1"}, "Ready": {text: "True", version: "2026-01-02T03:04:05Z"},
				"container i": {"terminated", "Completed, exit code 0", "c1"}, "readiness of i": {text: "false"}, "restart count of i": {text: "0"},
				"container c": {"running", "", "c2"}, "readiness of c": {text: "true"}, "restart count of c": {text: "2"},
				"container d": {"waiting", "CrashLoopBackOff", ""}, "readiness of d": {text: "false"}, "restart count of d": {text: "0"},
			},
			"pod ends": {existence: {version: "u2"}, "phase": {text: "Failed", detail: "Evicted"}, "IP": {}, "deletion": {text: "requested"}},
		}},
		"endpoints": {endpointObjects, someEndpoints, objects{"endpoints web": {"pod web": {text: "ready"}, "10.0.0.2": {text: "not ready"}}}},
		"slices": {sliceObjects, someSlices, objects{"endpointslice web": {
			"pod web": {text: "ready"}, "10.0.0.2": {text: "not ready, terminating"}, "pod sidecar": {text: "ready"},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			body := []byte(nil)
			if c.body != "" {
				var err error
				body, err = yaml.YAMLToJSON([]byte(c.body))
				require.NoError(t, err)
			}
			got, err := c.read(body)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestEventCounts(t *testing.T) {
	body, err := yaml.YAMLToJSON([]byte(`
items:
- {type: Normal, reason: Starting, count: 2, involvedObject: {kind: Node, name: node-1}}
- {type: Normal, reason: Starting, count: 1, involvedObject: {kind: Node, name: node-1}}
- {type: Normal, reason: Starting, count: 1, involvedObject: {kind: Node, name: another}}
- {type: Warning, reason: Unhealthy, involvedObject: {kind: Pod, name: static-node-1, namespace: ns}, series: {count: 3}}
- {type: Normal, reason: Killing, involvedObject: {kind: Pod, name: web, namespace: ns}}
- {type: Normal, reason: Killing, involvedObject: {kind: Pod, name: web, namespace: default}}
`))
	require.NoError(t, err)
	counts, err := eventCounts(body, "node-1", "ns")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"Normal Starting, node": 3, "Warning Unhealthy, pod static": 3, "Normal Killing, pod web": 1}, counts)
	require.Equal(t, map[string]int{"Normal Starting, node": 1, "Normal Killing, pod web": 1},
		more(map[string]int{"Normal Starting, node": 2, "Warning Unhealthy, pod static": 3, "removed": 1}, counts))
}
