package stages

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
)

// Explain returns the state of each stage for a pod, in the order of the list. It returns nil
// for a pod without any stage call of this agent, and after the release with Gone.
func (l *List) Explain(uid types.UID) []podwright.Explanation {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []podwright.Explanation
	for i, p := range l.pods[uid] {
		e := podwright.Explanation{Part: "stage " + l.cfg.Stages[i].Name, Since: p.since, Why: p.state.why(), Err: p.err}
		if !p.began.IsZero() {
			e.Step, e.Since, e.Why = p.running.gerund(), p.began, ""
		}
		if !p.cancelled.IsZero() {
			e.Why = "its context ended at " + p.cancelled.Format(time.RFC3339)
		}
		out = append(out, e)
	}
	return out
}
