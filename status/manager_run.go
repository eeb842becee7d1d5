package status

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// ErrShutdownTimeout is wrapped by Manager.Run's error when calls of the sink
// ignore their context.
var ErrShutdownTimeout = errors.New("still running after the shutdown timeout")

// outage is how many calls have to fail in a row until the first that goes well
// makes the others be repeated at once.
const outage = 3

// Run writes what is set until the context ends, then ends the calls in progress
// and returns nil. What is not written then is written by the next Run. If calls
// do not return within ShutdownTimeout, the error wraps ErrShutdownTimeout and
// names their pods.
func (m *Manager) Run(ctx context.Context) error {
	if !m.enter() {
		return ErrAlreadyRunning
	}
	defer m.leave()
	if m.cfg.Sink == nil {
		<-ctx.Done()
		return nil
	}
	resync := time.NewTicker(m.cfg.Resync)
	defer resync.Stop()
	var turns sync.WaitGroup
	for ctx.Err() == nil {
		var due <-chan time.Time
		until := m.dispatch(ctx, &turns)
		timer := time.NewTimer(time.Until(until))
		if !until.IsZero() {
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-due:
		case <-resync.C:
			m.resync()
		}
		timer.Stop()
	}
	if err := m.join(); err != nil {
		return err
	}
	turns.Wait()
	return nil
}

// join waits for the turns in progress, for ShutdownTimeout at most.
func (m *Manager) join() error {
	timer := time.NewTimer(m.cfg.ShutdownTimeout)
	defer timer.Stop()
	for len(m.inProgress()) > 0 {
		select {
		case <-m.wake:
		case <-timer.C:
			return fmt.Errorf("status: %w (%v): %s", ErrShutdownTimeout, m.cfg.ShutdownTimeout, strings.Join(m.inProgress(), ", "))
		}
	}
	return nil
}

// inProgress names the calls in progress.
func (m *Manager) inProgress() (calls []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.writing {
		calls = append(calls, fmt.Sprintf("%v of pod %v (for %v)", e.calling, e.ref, time.Since(e.began).Round(time.Millisecond)))
	}
	slices.Sort(calls)
	return calls
}

func (m *Manager) enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	entered := !m.running
	m.running = true
	return entered
}

func (m *Manager) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = false
}

// poke makes the loop look again.
func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// enqueue gives an entry the place in the queue that it should have. m.mu is held.
func (m *Manager) enqueue(e *entry) {
	u, at, ok := e.due()
	if !ok || m.cfg.Sink == nil || m.entries[e.uid] != e {
		m.queue.remove(&e.waits)
		return
	}
	since := e.since
	if since.IsZero() {
		since = time.Now() // it is not about a change
	}
	m.queue.put(&e.waits, u, since, at)
	m.poke()
}

// dispatch begins as many turns as may take place. It returns when the next one
// can begin, if that is a matter of time.
func (m *Manager) dispatch(ctx context.Context, turns *sync.WaitGroup) (until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var blocked []*entry
	for m.turns < m.cfg.MaxParallelWrites && ctx.Err() == nil {
		var p *place
		if p, until = m.queue.pick(time.Now()); p == nil {
			break
		}
		e := p.owner
		if m.writing[e.uid] != nil {
			blocked = append(blocked, e) // the turn of one that was forgotten
			continue
		}
		e.busy = true
		m.writing[e.uid] = e
		m.turns++
		turns.Go(func() { m.turn(ctx, e) })
	}
	for _, e := range blocked {
		m.queue.put(&e.waits, urgentDetail, e.since, time.Now().Add(m.cfg.RetryBackoff))
	}
	return until
}

// resync has every entry looked at again that waits for something outside.
func (m *Manager) resync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		e.tick()
		m.enqueue(e)
		m.dropIfTold(e)
	}
}

// turn makes the calls that an entry needs, one after the other. A version that was
// set meanwhile has to queue again.
func (m *Manager) turn(ctx context.Context, e *entry) {
	var once sync.Once
	giveUp := func() { once.Do(m.turnOver) }
	gone := false
	for more := true; more && ctx.Err() == nil; {
		f := m.facts(e)
		m.mu.Lock()
		var c call
		if more = m.entries[e.uid] == e; more { // else it was forgotten
			c, more = e.next(f)
		}
		e.calling, e.began = c.kind, f.now
		behind := e.takeBehind()
		m.mu.Unlock()
		m.synced(behind)
		if !more {
			break
		}
		a, late := m.call(ctx, c, giveUp)
		m.mu.Lock()
		gone = e.done(c, a, m.limits)
		behind = e.takeBehind()
		m.noteAnswer(a.err)
		more = !gone && !late && (c.kind != callPatch || e.toDelete())
		failures, err := e.failures, e.err
		m.mu.Unlock()
		m.synced(behind)
		m.logFailure(ctx, c, failures, err)
	}
	giveUp()
	m.end(e, gone)
}

// turnOver makes room for another turn.
func (m *Manager) turnOver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns--
	m.poke()
}

// end ends the turn of an entry.
func (m *Manager) end(e *entry, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.busy = false
	delete(m.writing, e.uid)
	if current := m.entries[e.uid]; gone && current == e {
		m.drop(e)
	} else if current != nil {
		m.enqueue(current)
		m.dropIfTold(current)
	}
	m.poke()
}

// call makes a call. When it ignores its deadline, the turn soon counts no more for
// the limit on parallel writes (giveUp), so that it holds up nobody else; late
// tells that this has happened.
func (m *Manager) call(ctx context.Context, c call, giveUp func()) (a answer, late bool) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.WriteTimeout)
	defer cancel()
	deaf := time.AfterFunc(m.cfg.WriteTimeout+m.cfg.WriteTimeout/10, giveUp)
	began := time.Now()
	a.pod, a.err = m.ask(ctx, c)
	a.now = time.Now()
	late = !deaf.Stop()
	if a.err != nil {
		a.err = fmt.Errorf("%v %v: %w", c.kind, c.ref, a.err)
	}
	if told := m.cfg.Metrics.Call; told != nil {
		told(c.kind.String(), a.now.Sub(began), a.err)
	}
	return a, late
}

// ask calls the sink. A panic of it is an error.
func (m *Manager) ask(ctx context.Context, c call) (pod *v1.Pod, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.cfg.Logger.Error("the sink of statuses panicked", "call", c.kind.String(), "pod", c.ref, "panic", p, "stack", string(debug.Stack()))
			pod, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	switch c.kind {
	case callGet:
		return m.cfg.Sink.Get(ctx, c.ref)
	case callPatch:
		return m.cfg.Sink.Patch(ctx, c.ref, c.old, c.new)
	default:
		return nil, m.cfg.Sink.Delete(ctx, c.ref)
	}
}

// facts collects what an entry has to know. m.mu is not held.
func (m *Manager) facts(e *entry) facts {
	m.mu.Lock()
	pod := e.pod
	m.mu.Unlock()
	f := facts{now: time.Now(), mirrors: m.cfg.Mirror != nil}
	if m.cfg.Pod != nil {
		f.pod = m.cfg.Pod(e.uid)
	}
	if f.mirrors && podfacts.IsStatic(pod) {
		f.mirror = m.cfg.Mirror(e.uid)
	}
	if m.cfg.MayStillRun != nil {
		f.mayStillRun = m.cfg.MayStillRun(e.uid)
	}
	return f
}

// noteAnswer notes whether the sink answers. When it does again after an outage,
// what failed is repeated at once. m.mu is held.
func (m *Manager) noteAnswer(err error) {
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrConflict) {
		m.failures++
		return
	}
	if m.failures >= outage {
		for _, e := range m.entries {
			e.hurry()
			m.enqueue(e)
		}
	}
	m.failures = 0
}

func (m *Manager) synced(behind time.Duration) {
	if behind > 0 && m.cfg.Metrics.Synced != nil {
		m.cfg.Metrics.Synced(behind)
	}
}

// logFailure logs the first of several failures in a row as a warning.
func (m *Manager) logFailure(ctx context.Context, c call, failures int, err error) {
	switch {
	case err == nil || ctx.Err() != nil:
	case failures == 1:
		m.cfg.Logger.Warn("status not written", "pod", c.ref, "err", err)
	default:
		m.cfg.Logger.Debug("status not written", "pod", c.ref, "failures", failures, "err", err)
	}
}

// Observe takes in a pod as it was seen at the sink, such as by a watch: mirrors,
// and pods that are not static. It should be called for each change that is seen.
// What somebody else has changed of the node agent's part is written anew at the
// next Resync; that a pod is to be deleted is heeded at once. A pod without a
// status is not remembered. pod must not be changed afterwards.
func (m *Manager) Observe(pod *v1.Pod) {
	e := m.observedEntry(pod)
	if e == nil {
		return
	}
	f := m.facts(e)
	m.mu.Lock()
	defer m.mu.Unlock()
	e.aim(f)
	e.observed(pod)
	m.enqueue(e)
}

// observedEntry finds the entry of a pod that was seen at the sink. A mirror that
// cannot be translated yet is found by its name.
func (m *Manager) observedEntry(pod *v1.Pod) *entry {
	uid := m.translate(pod.UID)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[uid]; e != nil && e.pod != nil {
		return e
	}
	if m.cfg.Mirror == nil || !podfacts.IsMirror(pod) {
		return nil
	}
	for _, e := range m.entries {
		if e.pod != nil && podfacts.IsStatic(e.pod) && mirrorOf(pod, e.pod) {
			return e
		}
	}
	return nil
}
