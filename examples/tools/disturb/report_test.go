package main

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	notReady := transition{After: 260 * time.Millisecond, Object: "node", Field: "Ready", From: "True", To: "False", Detail: "KubeletNotReady"}
	started := transition{After: time.Second, Object: "pod web", Field: "container c", From: "running", To: "running again"}
	remains := transition{Object: "pod web", Field: "phase", From: "Running", To: "Failed"}
	later := notReady
	later.After = 2 * time.Second
	var all results
	all.put(result{Disturbance: "agent-kill", Runtime: "containerd 2.2", Kubelet: ourName})
	all.put(result{
		Disturbance: "agent-kill", Runtime: "containerd 2.2", Kubelet: ourName,
		Transitions: []transition{notReady, started, later}, Remaining: []transition{remains}, Events: map[string]int{"Normal Starting, node": 2},
	})
	all.put(result{Disturbance: "agent-kill", Runtime: "containerd 2.2", Kubelet: upstreamName, Transitions: []transition{started}, Events: map[string]int{"Normal Killing, pod web": 1}})
	all.put(result{Disturbance: "agent-term", Runtime: "containerd 1.6", Kubelet: ourName, Transitions: []transition{notReady}})
	all.put(result{Disturbance: "node-deleted", Runtime: "containerd 1.6", Kubelet: upstreamName})

	file := filepath.Join(t.TempDir(), "results.json")
	before, err := readResults(file)
	require.NoError(t, err)
	require.Empty(t, before)
	require.NoError(t, all.write(file))
	all, err = readResults(file)
	require.NoError(t, err)

	both := all.comparisons()
	require.Len(t, both, 2, "only disturbances of this kubelet, in their order")
	require.Empty(t, both[0].worse(), "without a result of upstream")
	require.Equal(t, []string{"node, Ready: True → False", "at the end pod web, phase: Running → Failed"}, both[1].worse())
	require.Equal(t, `
### agent-kill, containerd 2.2

| | podwright | upstream |
| --- | --- | --- |
| node, Ready: True → False | 0.3 s (KubeletNotReady), 2.0 s (KubeletNotReady) |  |
| pod web, container c: running → running again | 1.0 s | 1.0 s |
| at the end pod web, phase: Running → Failed | 1 |  |
| event Normal Killing, pod web |  | 1 |
| event Normal Starting, node | 2 |  |
`, both[1].table())
	require.Contains(t, summary(both), `
| agent-term | containerd 1.6 | 1 | 1 | 0 | 0 | 0 | 0 |
| agent-kill | containerd 2.2 | 3; 1 | 2; 0 | 1; 1 | 1; 0 | 2; 1 | 2 |
`)
	require.Equal(t, exitWorse, report(io.Discard, both))
	require.Zero(t, report(io.Discard, both[:1]))
}

func TestParseArgs(t *testing.T) {
	o, err := parseArgs([]string{"-only", "agent", "-runtime", "v2", "-alone", "-results", "r"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, selected(o), 4)
	require.True(t, filepath.IsAbs(o.results))
	for _, args := range [][]string{{"word"}, {"-alone", "-upstream", "f"}, {"-runtime", "v3"}, {"-only", "nothing"}, {"-only", "("}} {
		_, err := parseArgs(args, io.Discard)
		require.Error(t, err, args)
	}
}
