package e2e_test

import (
	"strings"
	"testing"
	"time"
)

// stuck is what is known of containers that the runtime cannot remove any more.
type stuck struct {
	// read is how much of the kubelet's log was searched for them.
	read int
	// freed are those for which the runtime was restarted, starting tells since when
	// the runtime says that it is starting one.
	freed    map[string]bool
	starting map[string]time.Time
}

// waitUnstuck waits, from the last time at which the runtime had to be restarted on,
// and then longer: containerd 2 does not know any more whether what was stuck runs,
// and the kubelet looks at what has become unknown with the next resync, which is
// due within 90 s.
func (s *scene) waitUnstuck(t testing.TB, limit time.Duration, what string, cond func() error) {
	t.Helper()
	since, usual := time.Now(), limit
	wait(t, 10*time.Minute, what, func() error {
		if s.unstick(t) {
			since, limit = time.Now(), usual+90*time.Second
		}
		err := cond()
		if err != nil && time.Since(since) > limit {
			w, lookErr := s.look()
			t.Fatalf("after %d starts of the kubelet: %s: not within %s: %v\n\nthe runtime has %s %v", s.launches, what, limit, err, w, lookErr)
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
func (s *scene) unstick(t testing.TB) (restarted bool) {
	t.Helper()
	lines := strings.Split(s.log(t)[s.stuck.read:], "\n")
	for _, line := range lines[:len(lines)-1] {
		s.stuck.read += len(line) + 1
		at := strings.LastIndex(line, removal) // of the call, which is logged, the error names the container
		if at < 0 {
			continue
		}
		id, _, _ := strings.Cut(line[at+len(removal):], ":")
		if s.stuck.freed[id] || !s.stuck.isStuck(id, line) {
			continue
		}
		s.stuck.freed[id], restarted = true, true
		n, err := programs(s.node)
		t.Logf("the runtime is restarted: it cannot remove a container whose start was cut off: %s; programs: %v %v", line, n, err)
		s.runtime.Stop(t)
		s.runtime.Start(t)
	}
	return restarted
}

const removal = "RemoveContainer "

// isStuck tells whether what the kubelet says of a removal is for good. A start
// that was cut off ends within 10 s, which is what containerd allows its clean-up.
func (k *stuck) isStuck(id, line string) bool {
	switch {
	case strings.Contains(line, "cannot delete running task"):
		return true
	case !strings.Contains(line, "in starting state"):
		return false
	case k.starting[id].IsZero():
		k.starting[id] = time.Now()
	}
	return time.Since(k.starting[id]) > 20*time.Second
}
