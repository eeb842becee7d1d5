package images

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
)

// PullState is a waiting or running pull.
type PullState struct {
	Image string
	// Pods wait for it. Requests are their containers or volumes, in the same order.
	Pods     []types.UID
	Requests []string
	// Position is its position in the queue, from 1; 0 for a running pull.
	Position int
	// Since is the time of the first request, Started the start of the pull; zero while it waits.
	Since, Started time.Time
}

// Pulls lists the pulls: first the running ones, then the queue in its order. The CRI does not
// report their progress.
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

// Explain returns one Explanation for each image that a pod waits for: first the pulls, as in
// Pulls, then by name the images whose last pull failed. It returns nil if the pod waits for no
// image.
func (m *Manager) Explain(pod types.UID) (out []podwright.Explanation) {
	running := 0
	for _, p := range m.Pulls() {
		e := podwright.Explanation{Part: "image " + p.Image, Step: "pull", Since: p.Started}
		if p.Position == 0 {
			running++
		} else {
			e.Step, e.Since = "", p.Since
			e.Why = fmt.Sprintf("queued (%s, %d running)", ordinal(p.Position), running)
		}
		if slices.Contains(p.Pods, pod) {
			out = append(out, e)
		}
	}
	return append(out, m.history.explain(podKey(pod), time.Now())...)
}

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
