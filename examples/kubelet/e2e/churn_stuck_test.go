package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// waitUnstuck waits, from the last time at which the runtime had to be restarted on,
// and then longer: containerd 2 does not know any more whether what was stuck runs,
// and the kubelet looks at what has become unknown with the next resync, which is
// due within 90 s.
func (c *churn) waitUnstuck(t *testing.T, limit time.Duration, what string, cond func() error) {
	t.Helper()
	since, usual := time.Now(), limit
	wait(t, 10*time.Minute, what, func() error {
		if c.unstick(t) {
			since, limit = time.Now(), usual+90*time.Second
		}
		err := cond()
		if err != nil && time.Since(since) > limit {
			c.must(t, fmt.Errorf("%s: not within %s: %w", what, limit, err))
		}
		return err
	})
}

// unstick restarts a runtime that cannot remove one of its own containers any more.
// containerd keeps a task that nobody knows when its client dies in the middle of
// StartContainer, and refuses to remove the container ("cannot delete running
// task") until it is started again; 1.6 as well as 2.2. No call of the CRI helps;
// the kubelet says so in its log and goes on trying, which then succeeds. The same
// goes for a start that does not come to its end although nobody waits for it any
// longer ("container is in starting state").
func (c *churn) unstick(t *testing.T) (restarted bool) {
	t.Helper()
	lines := strings.Split(c.log(t)[c.logRead:], "\n")
	for _, line := range lines[:len(lines)-1] {
		c.logRead += len(line) + 1
		_, rest, _ := strings.Cut(line, "RemoveContainer ")
		id, _, _ := strings.Cut(rest, ":")
		if c.unstuck[id] || !c.isStuck(id, line) {
			continue
		}
		c.unstuck[id], restarted = true, true
		n, err := programs(c.node)
		t.Logf("the runtime is restarted: it cannot remove a container whose start was cut off: %s; programs: %v %v", line, n, err)
		c.runtime.Stop(t)
		c.runtime.Start(t)
	}
	return restarted
}

// isStuck tells whether what the kubelet says of a removal is for good. A start
// that was cut off ends within 10 s, which is what containerd allows its clean-up.
func (c *churn) isStuck(id, line string) bool {
	switch {
	case strings.Contains(line, "cannot delete running task"):
		return true
	case !strings.Contains(line, "in starting state"):
		return false
	case c.starting[id].IsZero():
		c.starting[id] = time.Now()
	}
	return time.Since(c.starting[id]) > 20*time.Second
}
