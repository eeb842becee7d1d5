package cgroups

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Numbers below 1 are never signalled: 0 would kill the agent itself, a negative one a process
// group or all processes.
func TestKillAll(t *testing.T) {
	for name, c := range map[string]struct {
		pids, killed []int
		err          error
	}{
		"none":      {},
		"ours":      {pids: []int{7, 8}, killed: []int{7, 8}},
		"foreign":   {pids: []int{0}, err: errForeign},
		"both":      {pids: []int{7, 0, 8}, killed: []int{7, 8}, err: errForeign},
		"no number": {pids: []int{-1}, err: errForeign},
	} {
		t.Run(name, func(t *testing.T) {
			var killed []int
			err := killAll(c.pids, func(pid int) { killed = append(killed, pid) })
			require.Equal(t, c.err, err)
			require.Equal(t, c.killed, killed)
		})
	}
}
