package cluster_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stuck is what is known of containers that the runtime cannot remove any more.
type stuck struct {
	// read is how much of the kubelet's log was searched for them.
	read int
	// starting is since when the runtime says that it is starting one.
	starting time.Time
	// restarts is how often the runtime was restarted for them.
	restarts int
}

// unstick restarts a runtime that cannot remove a container whose start was cut off by the
// kubelet's death ("cannot delete running task", or a start that does not end): no call of
// the CRI helps, and the kubelet says so in its log.
func (n *node) unstick(t *testing.T) {
	t.Helper()
	log, err := os.ReadFile(n.output)
	require.NoError(t, err)
	text := string(log[n.stuck.read:])
	n.stuck.read = len(log)
	is := strings.Contains(text, "cannot delete running task")
	if strings.Contains(text, "in starting state") {
		if n.stuck.starting.IsZero() {
			n.stuck.starting = time.Now()
		}
		is = is || time.Since(n.stuck.starting) > 20*time.Second // more than containerd allows its clean-up
	}
	if !is {
		return
	}
	t.Log("the runtime is restarted: it cannot remove a container whose start was cut off")
	n.runtime.Stop(t)
	n.runtime.Start(t)
	n.stuck.starting = time.Time{}
	n.stuck.restarts++
}
