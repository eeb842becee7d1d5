package plegtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg"
)

// Bench measures a PLEG on a runtime, in-memory or real. It creates its own pods and removes
// them at the end.
type Bench struct {
	// PLEG configures the measured PLEG. Its Runtime is required. Its OnEvent, OnHealth and
	// Metrics are called as usual.
	PLEG pleg.Config
	// Pods changes the runtime's pods. Required.
	Pods Pods
	// Idle is the number of pods that rest meanwhile. Default: 0.
	Idle int
	// Watch is the duration of the measurement at rest, after all pods are inspected. Default:
	// 0, no measurement.
	Watch time.Duration
	// Rounds is the number of pods that are started, ended and removed one after another, to
	// measure the time until each change is seen. Default: 0, no measurement.
	Rounds int
	// CPU returns the CPU time that the process has used so far, for the measurement at rest.
	// Optional: without it the report has no CPU time.
	CPU func() time.Duration
}

// Report is the result of a Bench.
type Report struct {
	// Ready is the time from the start of the PLEG until every pod was inspected.
	Ready time.Duration
	// Watched is the duration of the measurement at rest. Lists, Inspections and CPU are the
	// calls and the process's CPU time in that duration.
	Watched            time.Duration
	Lists, Inspections int
	CPU                time.Duration
	// ListTook and InspectTook are the durations of calls during the whole run, and Failed is
	// the number of failed calls.
	ListTook, InspectTook Spread
	Failed                int
	// SeenStart, SeenExit and SeenRemoval are the times from a completed change to its event,
	// without an Observe. An event before the completion counts as zero.
	SeenStart, SeenExit, SeenRemoval Spread
	// Fresh are the durations of an Observe right after a change.
	Fresh Spread
}

// Spread summarizes many durations.
type Spread struct {
	N                int
	Median, P99, Max time.Duration
}

// SpreadOf returns the spread of durations.
func SpreadOf(d []time.Duration) Spread {
	if len(d) == 0 {
		return Spread{}
	}
	d = slices.Sorted(slices.Values(d))
	return Spread{N: len(d), Median: d[len(d)/2], P99: d[len(d)*99/100], Max: d[len(d)-1]}
}

// String returns the spread in one line.
func (s Spread) String() string {
	if s.N == 0 {
		return "none"
	}
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("median %v, p99 %v, max %v (%d)", round(s.Median), round(s.P99), round(s.Max), s.N)
}

// String returns the report as lines of text.
func (r Report) String() string {
	var b strings.Builder
	line := func(what string, value any) { fmt.Fprintf(&b, "%-34s %v\n", what, value) }
	line("all pods observed after", r.Ready.Round(time.Millisecond))
	if s := r.Watched.Seconds(); s > 0 {
		line("at rest, lists per second", fmt.Sprintf("%.3f", float64(r.Lists)/s))
		line("at rest, inspections per second", fmt.Sprintf("%.3f", float64(r.Inspections)/s))
		line("at rest, CPU ms per second", fmt.Sprintf("%.3f", r.CPU.Seconds()*1000/s))
	}
	line("a list takes", r.ListTook)
	line("an inspection takes", r.InspectTook)
	line("failed calls", r.Failed)
	line("a start is seen after", r.SeenStart)
	line("an exit is seen after", r.SeenExit)
	line("a removal is seen after", r.SeenRemoval)
	line("an Observe takes", r.Fresh)
	return b.String()
}

// Run measures. With an error it returns the results so far.
func (b Bench) Run(ctx context.Context) (Report, error) {
	if b.PLEG.Runtime == nil || b.Pods == nil {
		return Report{}, errors.New("plegtest: Bench.PLEG.Runtime and Bench.Pods are required")
	}
	m := &meter{Bench: b, id: rand.Text()[:8]}
	err := m.measure(ctx)
	for i := range m.pods {
		err = errors.Join(err, wrap("clean up", b.Pods.Remove(context.WithoutCancel(ctx), m.uid(i))))
	}
	return m.finish(), err
}

type meter struct {
	Bench
	id   string
	pods int
	o    observer
	// listed is closed when the first list is complete.
	listed chan struct{}

	mu                  sync.Mutex
	report              Report
	lists, inspectTimes []time.Duration
	seen                [3][]time.Duration
	fresh               []time.Duration
}

func (m *meter) uid(i int) types.UID { return types.UID(fmt.Sprintf("plegbench-%s-%d", m.id, i)) }

func (m *meter) newUID() types.UID {
	m.pods++
	return m.uid(m.pods - 1)
}

func (m *meter) measure(ctx context.Context) error {
	for range m.Idle {
		if err := m.Pods.Start(ctx, m.newUID()); err != nil {
			return fmt.Errorf("start a pod: %w", err)
		}
	}
	if err := m.newPLEG(); err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- m.o.Run(running) }()
	err := m.steps(ctx)
	cancel()
	return errors.Join(err, <-done)
}

func (m *meter) steps(ctx context.Context) error {
	began := time.Now()
	if err := m.ready(ctx); err != nil {
		return err
	}
	m.report.Ready = time.Since(began)
	if m.Watch > 0 {
		if err := m.watch(ctx); err != nil {
			return err
		}
	}
	for i := range m.Rounds {
		if err := m.round(ctx, i%2 == 1); err != nil {
			return err
		}
	}
	return nil
}

// ready blocks until all pods have been listed and inspected.
func (m *meter) ready(ctx context.Context) error {
	select {
	case <-m.listed:
	case <-ctx.Done():
		return fmt.Errorf("the first list: %w", ctx.Err())
	}
	for i := range m.pods {
		for {
			s, err := m.o.Get(m.uid(i))
			if err == nil && !s.Empty() {
				break
			}
			select {
			case <-m.o.more:
			case <-ctx.Done():
				return fmt.Errorf("first inspection of pod %s: %w (last: %v)", m.uid(i), ctx.Err(), err)
			}
		}
	}
	return nil
}

func (m *meter) newPLEG() (err error) {
	cfg := m.PLEG
	m.o.more = run.NewSignal()
	cfg.OnEvent = func(e pleg.Event) {
		m.o.record(e)
		if m.PLEG.OnEvent != nil {
			m.PLEG.OnEvent(e)
		}
	}
	cfg.Metrics.OnList = func(took time.Duration, pods int, err error) {
		m.called(&m.lists, took, err)
		if m.PLEG.Metrics.OnList != nil {
			m.PLEG.Metrics.OnList(took, pods, err)
		}
	}
	cfg.Metrics.OnInspect = func(took time.Duration, err error) {
		m.called(&m.inspectTimes, took, err)
		if m.PLEG.Metrics.OnInspect != nil {
			m.PLEG.Metrics.OnInspect(took, err)
		}
	}
	m.listed = make(chan struct{})
	var once sync.Once
	cfg.OnHealth = func(err error) {
		once.Do(func() { close(m.listed) })
		if m.PLEG.OnHealth != nil {
			m.PLEG.OnHealth(err)
		}
	}
	m.o.PLEG, err = pleg.New(cfg)
	return err
}

func (m *meter) called(into *[]time.Duration, took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*into = append(*into, took)
	if err != nil {
		m.report.Failed++
	}
}

// watch measures at rest, after 3 s in which an event stream settles.
func (m *meter) watch(ctx context.Context) error {
	if err := pause(ctx, 3*time.Second); err != nil {
		return err
	}
	counts := func() (int, int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.lists), len(m.inspectTimes)
	}
	cpu := func() time.Duration {
		if m.CPU == nil {
			return 0
		}
		return m.CPU()
	}
	began, used := time.Now(), cpu()
	lists, inspects := counts()
	err := pause(ctx, m.Watch)
	m.report.CPU, m.report.Watched = cpu()-used, time.Since(began)
	listsNow, inspectsNow := counts()
	m.report.Lists, m.report.Inspections = listsNow-lists, inspectsNow-inspects
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	if !run.Sleep(ctx, d) {
		return ctx.Err()
	}
	return nil
}

// round performs the changes of a pod's life. After each it either calls Observe or waits for
// the event.
func (m *meter) round(ctx context.Context, withObserve bool) error {
	uid := m.newUID()
	for i, step := range []struct {
		do   func(context.Context, types.UID) error
		want pleg.EventType
	}{{m.Pods.Start, pleg.Started}, {m.Pods.Exit, pleg.Died}, {m.Pods.Remove, pleg.Removed}} {
		if err := step.do(ctx, uid); err != nil {
			return fmt.Errorf("change a pod: %w", err)
		}
		done := time.Now()
		if withObserve {
			if _, err := m.o.Observe(ctx, uid, done); err != nil {
				return err
			}
			m.fresh = append(m.fresh, time.Since(done))
			continue
		}
		at, err := m.o.when(ctx, uid, step.want)
		if err != nil {
			return err
		}
		m.seen[i] = append(m.seen[i], max(0, at.Sub(done)))
	}
	return nil
}

func (m *meter) finish() Report {
	r := m.report
	r.ListTook, r.InspectTook, r.Fresh = SpreadOf(m.lists), SpreadOf(m.inspectTimes), SpreadOf(m.fresh)
	r.SeenStart, r.SeenExit, r.SeenRemoval = SpreadOf(m.seen[0]), SpreadOf(m.seen[1]), SpreadOf(m.seen[2])
	return r
}
