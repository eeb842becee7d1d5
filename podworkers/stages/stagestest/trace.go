package stagestest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers/stages"
)

// longestTrace is the number of calls that a message shows.
const longestTrace = 30

// trace is the sequence of calls of a rule.
type trace struct {
	mu    sync.Mutex
	calls []string
	names map[types.UID]string
}

// begin forgets the earlier calls.
func (t *trace) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = nil
}

// name sets the name of a pod in the calls.
func (t *trace) name(pod *v1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = map[types.UID]string{}
	}
	t.names[pod.UID] = pod.Name
}

// add adds a call before it is made.
func (t *trace) add(call string, pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, strings.TrimSpace(call+" "+t.names[pod]))
}

// explain adds the calls to the error of a rule.
func (t *trace) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil || len(t.calls) == 0 {
		return err
	}
	calls, omitted := t.calls, ""
	if n := len(calls) - longestTrace; n > 0 {
		calls, omitted = calls[n:], fmt.Sprintf("%d calls, ", n)
	}
	return fmt.Errorf("%w\ncalls: %s%s", err, omitted, strings.Join(calls, ", "))
}

// tracedStage adds its calls to a trace.
type tracedStage struct {
	stages.Stage
	trace *trace
}

func (s tracedStage) Prepare(ctx context.Context, pod *v1.Pod) error {
	s.trace.add("Prepare"+note(ctx), pod.UID)
	return s.Stage.Prepare(ctx, pod)
}

func (s tracedStage) Release(ctx context.Context, uid types.UID) error {
	s.trace.add("Release"+note(ctx), uid)
	return s.Stage.Release(ctx, uid)
}

// note returns a remark about a call with this context.
func note(ctx context.Context) string {
	if ctx.Err() != nil {
		return " (cancelled)"
	}
	return ""
}
