package probe_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/probetest"
)

// The Manager's own delay of probes, without the machine's: of 600 probes at 1 s that take 20 ms
// each, 99 % are late by less than 20 ms.
func TestLateness(t *testing.T) {
	inBubble(t, agentStartsNow, func(r *rig) {
		r.prober.Script("web", probe.Liveness, probetest.Step{Verdict: probe.Success, Latency: 20 * time.Millisecond})
		http := every(1)
		http.ProbeHandler = handler(probe.HTTPGet)
		for i := range 600 {
			pod := podOf(types.UID(fmt.Sprintf("pod-%d", i)), container("web", probes{probe.Liveness: http}))
			r.store(pod, runningSince("web", "fake://"+string(pod.UID), r.begin.Add(-time.Minute)))
			require.NoError(t, r.AddPod(pod))
		}
		r.sleep(10 * s)
		var late []time.Duration
		for _, p := range r.probedList() {
			late = append(late, p.Late)
		}
		require.Greater(t, len(late), 600*8)
		slices.Sort(late)
		require.Less(t, late[len(late)*99/100], 20*time.Millisecond)
		require.GreaterOrEqual(t, late[0], time.Duration(0), "never early")
		require.LessOrEqual(t, r.prober.Most(), 24)
	})
}
