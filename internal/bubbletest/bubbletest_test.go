package bubbletest

import (
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/internal/testkit/child"
)

// failing are cases with the texts of their reports.
var failing = []struct {
	name string
	run  func(t *testing.T)
	want []string
}{
	{"fails", func(t *testing.T) {
		Test(t, func(t testing.TB) { t.Fatal("own failure") })
	}, []string{"own failure"}},
	{"remains", func(t *testing.T) {
		Test(t, func(testing.TB) { go blockForEver() })
	}, []string{"goroutines that block forever", "bubbletest.blockForEver"}},
	{"fails and remains", func(t *testing.T) {
		Test(t, func(t testing.TB) {
			go func() { time.Sleep(time.Hour); t.Error("never") }()
			t.Fatal("own failure")
		})
	}, []string{"own failure", "goroutines that block forever"}},
	{"deadlock", func(t *testing.T) {
		Test(t, func(t testing.TB) { t.Log("logged"); blockForEver() })
	}, []string{"logged", "goroutines that block forever", "bubbletest.blockForEver"}},
	{"file", func(t *testing.T) {
		stopsClock(t, func() (wait, wake func()) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			return func() { _, _ = r.Read(make([]byte, 1)) }, func() { _ = w.Close() }
		})
	}, []string{"the clock of the synctest bubble stands still", "os.(*File).Read"}},
	{"mutex", func(t *testing.T) {
		stopsClock(t, func() (wait, wake func()) {
			var mu sync.Mutex
			mu.Lock()
			return mu.Lock, mu.Unlock
		})
	}, []string{"the clock of the synctest bubble stands still", "sync.(*Mutex).Lock"}},
	{"several", stopsFour, []string{"the clock of the synctest bubble stands still", "the clocks of 3 earlier cases stood still"}},
}

// stopsFour stops four bubbles of one suite.
func stopsFour(t *testing.T) {
	cases := Cases{Around: synctest.Test, limits: limits{10 * time.Millisecond, 0, 50 * time.Millisecond, time.Minute}}
	for range maxStopped + 1 {
		t.Run("case", func(t *testing.T) {
			var mu sync.Mutex
			mu.Lock()
			cases.Run(t, func(*testing.T, testing.TB) { mu.Lock() })
		})
	}
}

func blockForEver() { <-make(chan struct{}) }

// stopsClock fails t with a bubble that waits. It is woken after t, and then no report passes.
func stopsClock(t *testing.T, begin func() (wait, wake func())) {
	wait, wake := begin()
	t.Cleanup(wake)
	cases := Cases{Around: synctest.Test, limits: limits{10 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, time.Minute}}
	cases.Run(t, func(_ *testing.T, t testing.TB) {
		go wait()
		time.Sleep(time.Hour)
		t.Fatal("after the end of the test")
	})
}

// Each case fails its test, and only that: the process runs the remaining tests.
func TestFailures(t *testing.T) {
	for _, c := range failing {
		t.Run(c.name, func(t *testing.T) {
			out := child.Fails(t, "", func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(100 * time.Millisecond) }) // abandoned bubbles continue
				c.run(t)
			}, c.want...)
			require.NotContains(t, out, "after the end")
		})
	}
}

func TestPasses(t *testing.T) {
	ran := false
	Test(t, func(t testing.TB) {
		began := time.Now()
		time.Sleep(time.Hour)
		ran = time.Since(began) == time.Hour
	})
	require.True(t, ran)
	require.PanicsWithValue(t, "other", func() {
		defer func() { report(t, recover()) }()
		panic("other")
	})
	direct := Cases{Around: func(t *testing.T, f func(t *testing.T)) { f(t) }}
	t.Run("skips", func(t *testing.T) {
		direct.Run(t, func(_ *testing.T, tb testing.TB) { tb.Skip("not applicable") })
		t.Error("after a skip")
	})
}
