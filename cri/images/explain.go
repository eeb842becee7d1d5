package images

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// PullState is a pull that waits or is under way.
type PullState struct {
	// Image is the normalised name.
	Image string
	// Pods wait for it; Requests says for what of them, in the same order.
	Pods     []types.UID
	Requests []string
	// Position is its place in the queue, counted from 1; 0 when it is under way.
	Position int
	// Since is when it was first asked for, Started when it began; zero while it
	// waits.
	Since, Started time.Time
}

// Pulls lists the pulls, those under way first and then the queue in its order. How far
// a pull has come is not known: the CRI does not tell.
func (m *Manager) Pulls() []PullState {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []PullState
	for f := range q.running {
		out = append(out, f.state(0))
	}
	slices.SortFunc(out, func(a, b PullState) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Image, b.Image))
	})
	for i, f := range q.inOrder() {
		out = append(out, f.state(i+1))
	}
	return out
}

func (f *flight) state(position int) PullState {
	s := PullState{Image: f.image, Position: position, Since: f.since, Started: f.started}
	for _, a := range f.members {
		s.Pods, s.Requests = append(s.Pods, a.r.Pod.UID), append(s.Requests, a.r.String())
	}
	return s
}

// Explain says in words which pulls a pod waits for, since when, in which place of the
// queue, and what went wrong with the last ones; empty when the pod waits for none.
//
//	pulling image registry.example.com/app:v1 for 12s
//	waiting to pull image busybox:latest for 3s, 2nd in the queue behind 1 under way
//	image db:v2: next try in 35s, after 3 failed: failed to pull image "db:v2": ...
func (m *Manager) Explain(pod types.UID) string {
	now := time.Now()
	var lines []string
	pulls := m.Pulls()
	under := 0
	for _, p := range pulls {
		if p.Position == 0 {
			under++
		}
		if !slices.Contains(p.Pods, pod) {
			continue
		}
		line := fmt.Sprintf("pulling image %s for %s", p.Image, since(now, p.Started))
		if p.Position > 0 {
			line = fmt.Sprintf("waiting to pull image %s for %s, %s in the queue behind %d under way",
				p.Image, since(now, p.Since), ordinal(p.Position), under)
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, m.history.explain(podKey(pod), now)...), "\n")
}

func since(now, then time.Time) time.Duration { return now.Sub(then).Round(time.Second) }

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n, suffix)
}
