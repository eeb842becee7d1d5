// Package probetest has an in-memory probe.Prober for tests of users of package probe, and a suite
// for probers (Run). The in-memory prober follows a script and records its calls. It works in real
// time and in a synctest bubble, and is safe for concurrent use.
//
//	prober := &probetest.Prober{}
//	prober.Script("web", probe.Readiness,
//		probetest.Step{Verdict: probe.Failure, Output: "not yet"},
//		probetest.Step{Verdict: probe.Success})
//
// Run tests a Prober of your own:
//
//	probetest.Run(t, func(t *testing.T) probetest.Subject {
//		return probetest.Subject{Prober: mine, Healthy: target(t, "up"), Failing: target(t, "down")}
//	})
//
// Runnable example: ExampleProber in probetest_test.go.
package probetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/probe"
)

// Step is the behaviour and the outcome of one execution.
type Step struct {
	// Latency is the duration. If the context is done earlier, the execution returns a Failure
	// then.
	Latency time.Duration
	// Verdict and Output are the result.
	Verdict probe.Verdict
	Output  string
	// Err is returned if it is not nil: the probe could not be carried out.
	Err error
	// Panic, if not nil, is the value of a panic.
	Panic any
	// Hang makes the execution ignore its context and block until Release.
	Hang bool
}

// Call is one call of Probe.
type Call struct {
	UID         types.UID
	Container   string
	ContainerID string
	Type        probe.Type
	// Began is the start and Ended the end, or zero while the call is in progress.
	Began, Ended time.Time
}

// Prober is a scripted probe.Prober. The zero value returns Success at once for every container.
// It is safe for concurrent use.
type Prober struct {
	mu      sync.Mutex
	scripts map[key][]Step
	calls   []Call
	running int
	most    int
	release chan struct{}
}

type key struct {
	container string
	typ       probe.Type
}

// Script sets the steps of the next executions of the probes of a type, for all containers of a
// name. The last step is repeated forever. Without steps the probes succeed.
func (p *Prober) Script(container string, t probe.Type, steps ...Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scripts == nil {
		p.scripts = map[key][]Step{}
	}
	p.scripts[key{container, t}] = steps
}

// Release ends all executions that hang now.
func (p *Prober) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.release != nil {
		close(p.release)
		p.release = nil
	}
}

// Calls returns all calls so far, in the order of their starts.
func (p *Prober) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// CallsOf returns the calls for the probes of a type, for all containers of a name.
func (p *Prober) CallsOf(container string, t probe.Type) []Call {
	return slices.DeleteFunc(p.Calls(), func(c Call) bool { return c.Container != container || c.Type != t })
}

// Most returns the maximum number of concurrent calls.
func (p *Prober) Most() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// Probe implements probe.Prober.
func (p *Prober) Probe(ctx context.Context, t probe.Target) (probe.Result, error) {
	step, index, release := p.begin(t)
	defer p.end(index)
	if step.Hang {
		<-release
	}
	if step.Latency > 0 && !run.Sleep(ctx, step.Latency) {
		return probe.Result{Verdict: probe.Failure, Output: "no response: " + context.Cause(ctx).Error()}, nil
	}
	if step.Panic != nil {
		panic(step.Panic)
	}
	return probe.Result{Verdict: step.Verdict, Output: step.Output}, step.Err
}

func (p *Prober) begin(t probe.Target) (step Step, index int, release <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, Call{
		UID: t.Pod.UID, Container: t.Container.Name, ContainerID: t.ContainerID, Type: t.Type, Began: time.Now(),
	})
	p.running++
	p.most = max(p.most, p.running)
	step = Step{Verdict: probe.Success}
	k := key{t.Container.Name, t.Type}
	if steps := p.scripts[k]; len(steps) > 0 {
		step = steps[0]
		if len(steps) > 1 {
			p.scripts[k] = steps[1:]
		}
	}
	if step.Hang && p.release == nil {
		p.release = make(chan struct{})
	}
	return step, len(p.calls) - 1, p.release
}

func (p *Prober) end(index int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.calls[index].Ended = time.Now()
}
