package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/internal/testpods"
)

// stopLoad makes stops take some time in the runtime, and sees how many go on.
type stopLoad struct {
	takes time.Duration
	fail  error

	mu        sync.Mutex
	now, most int
	last      time.Time
}

func (l *stopLoad) before(ctx context.Context, call, _ string) error {
	if call != "StopContainer" {
		return nil
	}
	l.mu.Lock()
	l.now++
	l.most, l.last = max(l.most, l.now), time.Now()
	l.mu.Unlock()
	run.Sleep(ctx, l.takes)
	l.mu.Lock()
	l.now--
	l.mu.Unlock()
	return l.fail
}

// Pods of very many containers leave the runtime time for others, and each hears of
// its end soon, also when all of them take theirs.
func TestStopsAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		pods, containers int
		takes            time.Duration
		most             int           // at a time
		within           time.Duration // the last is told
	}{
		"one pod":            {1, 100, 100 * time.Millisecond, 16, 700 * time.Millisecond},
		"many pods":          {10, 20, 100 * time.Millisecond, 64, 500 * time.Millisecond},
		"one stubborn pod":   {1, 100, 20 * time.Second, 100, 2 * time.Second},
		"many stubborn pods": {10, 20, 20 * time.Second, 200, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, fake.Config{})
				var names []string
				for i := range tc.containers {
					names = append(names, fmt.Sprint("c", i))
				}
				load := &stopLoad{takes: tc.takes}
				var requests []KillRequest
				for i := range tc.pods {
					pod := testpods.New(names...)
					pod.Name, pod.UID = fmt.Sprint("pod", i), types.UID(fmt.Sprint("uid", i))
					requests = append(requests, KillRequest{Pod: pod, Status: h.mustSync(pod), GraceSeconds: new(int64(30))})
				}
				h.runtime.before = load.before
				begin := time.Now()
				for _, err := range run.Each(tc.pods, func(i int) error { return h.m.KillPod(t.Context(), requests[i]).Err() }) {
					require.NoError(t, err)
				}
				require.Equal(t, tc.most, load.most)
				require.LessOrEqual(t, load.last.Sub(begin), tc.within)
			})
		})
	}
}

// preStop handlers are bounded like stops, and one that hangs takes nobody's time: all
// are called within the grace period, and each container has what is left of it.
func TestPreStopHandlersAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		hang   func(container int) bool
		grace  int64
		most   int           // handlers at a time
		within time.Duration // the last is called
	}{
		"none hangs":        {func(int) bool { return false }, 30, 16, 2 * time.Second},
		"one hangs":         {func(c int) bool { return c == 7 }, 30, 17, 2 * time.Second},
		"all hang":          {func(int) bool { return true }, 30, 230, 4 * time.Second},
		"all hang, shortly": {func(int) bool { return true }, 4, 230, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, fake.Config{})
				var mu sync.Mutex
				var now, most, called int
				var last time.Time
				h.cfg.Hooks = handlers(func(ctx context.Context, container, _ string) (string, error) {
					var number int
					_, _ = fmt.Sscanf(container, "c%d", &number)
					mu.Lock()
					called, now, last = called+1, now+1, time.Now()
					most = max(most, now)
					mu.Unlock()
					if takes := 100 * time.Millisecond; tc.hang(number) {
						<-ctx.Done()
					} else {
						run.Sleep(ctx, takes)
					}
					mu.Lock()
					now--
					mu.Unlock()
					return "", nil
				})
				h.restart()
				var names []string
				for i := range 230 {
					names = append(names, fmt.Sprint("c", i))
				}
				pod := testPod(names...)
				for _, name := range names {
					preStop(pod, name, execHandler("x"))
				}
				status := h.mustSync(pod)
				begin := time.Now()
				require.NoError(t, h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: status, GraceSeconds: &tc.grace}).Err())
				require.Equal(t, 230, called)
				require.LessOrEqual(t, last.Sub(begin), tc.within)
				require.LessOrEqual(t, most, tc.most)
				require.LessOrEqual(t, time.Since(begin), time.Duration(tc.grace+1)*time.Second)
			})
		})
	}
}

// Whoever waits for a place leaves when the kill is called off, and what very many
// errors say is bounded.
func TestManyStopsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{})
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprint("c", i))
		}
		pod := testPod(names...)
		status := h.mustSync(pod)
		refused := errors.New("refused" + strings.Repeat("!", 5000))
		load := &stopLoad{takes: 100 * time.Millisecond, fail: refused}
		h.runtime.before = load.before
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, h.m.KillPod(ctx, KillRequest{Pod: pod, Status: status}).Err(), context.DeadlineExceeded)
		require.Equal(t, 50*time.Millisecond, time.Since(begin))
		var steps []string
		result := h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: status, SetStep: func(s string) { steps = append(steps, s) }})
		require.ErrorIs(t, result.Err(), refused)
		require.Less(t, len(result.Err().Error()), 12000)
		require.Contains(t, result.Err().Error(), "and 95 more")
		for _, step := range steps {
			require.Less(t, len(step), 500)
		}
		require.Contains(t, strings.Join(steps, "\n"), "; and 11 more", "16 at a time")
	})
}
