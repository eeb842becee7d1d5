// Package probetest has a Prober in memory, for tests of what is built on package
// probe. It does what a script says, writes down what it was asked, and works in
// real time as well as in a synctest bubble.
//
//	prober := &probetest.Prober{}
//	prober.Script("web", probe.Readiness,
//		probetest.Step{Verdict: probe.Failure, Output: "not yet"},
//		probetest.Step{Verdict: probe.Success})
//
// An example that runs: ExampleProber in probetest_test.go.
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

// Step is what one execution does and finds.
type Step struct {
	// Latency is how long it takes. If its context ends before, the execution
	// returns then, with a Failure. Zero means none.
	Latency time.Duration
	// Verdict and Output are what it finds.
	Verdict probe.Verdict
	Output  string
	// Err, if not nil, is why it could not be carried out.
	Err error
	// Panic, if not nil, is what it panics with.
	Panic any
	// Hang makes it ignore its context and return only after Release.
	Hang bool
}

// Call is one call of Probe.
type Call struct {
	UID         types.UID
	Container   string
	ContainerID string
	Type        probe.Type
	// Began and Ended are when; Ended is zero while the call lasts.
	Began, Ended time.Time
}

// Prober is a scripted probe.Prober. Its zero value finds a Success at once in
// every container.
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

// Script says what the next executions of the probes of this type of all
// containers of this name do, one step each. The last step is repeated for ever;
// without steps, they succeed.
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

// Calls returns all calls so far, in the order in which they began.
func (p *Prober) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// CallsOf returns those of the probes of one type of all containers of one name.
func (p *Prober) CallsOf(container string, t probe.Type) []Call {
	return slices.DeleteFunc(p.Calls(), func(c Call) bool { return c.Container != container || c.Type != t })
}

// Most returns how many calls there were at a time at most.
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
		return probe.Result{Verdict: probe.Failure, Output: "no answer: " + context.Cause(ctx).Error()}, nil
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
