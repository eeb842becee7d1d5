// Package bubbletest runs the cases of exported suites in synctest bubbles, so that a case fails its test
// and neither ends the process with a panic nor hangs until the timeout:
//
//	bubbletest.Test(t, func(t testing.TB) { c.play(newFixture(t)) })
//
// A suite whose caller chooses the bubble uses Cases:
//
//	cases := bubbletest.Cases{Around: cfg.Around}
//	cases.Run(t, func(t *testing.T, tb testing.TB) { c.play(newFixture(tb, cfg.Start(t))) })
package bubbletest

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// limits are the times of the check for a stopped clock.
type limits struct {
	// period is the period of checks. An unchanged bubble counts as stopped after files with a
	// goroutine at a file descriptor, after locks with one at a mutex or a channel from outside of the
	// bubble, and after calls with one in a system call.
	period, files, locks, calls time.Duration
}

var defaultLimits = limits{500 * time.Millisecond, 2 * time.Second, 5 * time.Second, 30 * time.Second}

// maxStopped is the number of cases with a stopped clock after which Cases skips.
const maxStopped = 3

// Cases runs the cases of one suite.
type Cases struct {
	// Around runs a case, for example synctest.Test. Default: a direct call.
	Around func(t *testing.T, f func(t *testing.T))

	limits  limits
	stopped atomic.Int32
}

// Test runs f in a synctest bubble, as a case of its own.
func Test(t *testing.T, f func(t testing.TB)) {
	t.Helper()
	cases := Cases{Around: synctest.Test}
	cases.Run(t, func(_ *testing.T, tb testing.TB) { f(tb) })
}

// Run runs f in Around. A deadlock, goroutines that remain after f, and a bubble whose clock stands
// still fail t. The goroutines of such a bubble are abandoned: tb then blocks its callers, and f does
// not return. f passes its t only to functions that require this type, and otherwise uses tb. After
// three stopped bubbles, Run skips, because each takes seconds.
func (c *Cases) Run(t *testing.T, f func(t *testing.T, tb testing.TB)) {
	t.Helper()
	if c.Around == nil {
		f(t, t)
		return
	}
	if c.stopped.Load() >= maxStopped {
		t.Skipf("not run, because the clocks of %d earlier cases stood still", maxStopped)
	}
	guard := &guarded{}
	bubble, done, completed := make(chan string, 1), make(chan struct{}), false
	go func() {
		defer close(done)
		defer func() {
			// In an abandoned bubble this blocks, because t may have ended.
			if p := recover(); p != nil {
				defer guard.enter()()
				report(t, p)
			}
		}()
		c.Around(t, func(t *testing.T) {
			bubble <- run.Bubble(ownStack())
			guard.TB = t
			defer func() { guard.enter()() }()
			f(t, guard)
		})
		completed = true
	}()
	l := c.limits
	if l == (limits{}) {
		l = defaultLimits
	}
	if stopped := watch(bubble, done, l); stopped != "" {
		guard.abandon()
		c.stopped.Add(1)
		t.Fatalf("the clock of the synctest bubble stands still, because a goroutine waits for an event from outside of the bubble, "+
			"such as inotify, a socket or a process, or for a mutex whose holder waits: "+
			"disable or change it in this test, or run the suite in real time if it can.\n%s", stopped)
	}
	switch {
	case completed:
	case t.Failed():
		t.FailNow()
	default:
		runtime.Goexit()
	}
}

// report fails t with the panic of a bubble. It repeats another panic.
func report(t testing.TB, p any) {
	t.Helper()
	if fmt.Sprintf("%T", p) != "runtime.synctestDeadlockError" {
		panic(p)
	}
	t.Errorf("the synctest bubble of the case ended with goroutines that block forever (%v):\n%s", p, strings.Join(goroutinesIn(numberOf(p)), "\n\n"))
}

// numberOf returns the number of the bubble of a deadlock, or "" if it is unavailable.
func numberOf(p any) string {
	if b := reflect.ValueOf(p).FieldByName("bubble"); b.Kind() == reflect.Pointer && !b.IsNil() {
		if id := b.Elem().FieldByName("id"); id.CanUint() {
			return fmt.Sprint(id.Uint())
		}
	}
	return ""
}
