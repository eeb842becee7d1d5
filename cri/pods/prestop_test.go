package pods

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/probe"
)

// C30, C31: preStop and stop share the grace period, and the stop gets all of the rest.
func TestPreStopShareOfGrace(t *testing.T) {
	for _, tc := range []struct {
		name     string
		handler  v1.LifecycleHandler
		deletion int64
		override *int64
		want     []string
		events   []string
	}{
		{"no runner of handlers", sleepHandler(5), 30, nil, []string{"0s StopContainer a 30s", "0s StopPodSandbox"}, []string{"FailedPreStopHook"}},
		{"C30 sleep 10 of 30", sleepHandler(10), 30, nil, []string{"10s StopContainer a 20s", "10s StopPodSandbox"}, nil},
		{"C30 exec 10 of 30", execHandler("10"), 30, nil, []string{"0s exec a sleep 10", "10s StopContainer a 20s", "10s StopPodSandbox"}, nil},
		{"C30 40 of 30", sleepHandler(40), 30, nil, []string{"30s StopContainer a 2s", "30s StopPodSandbox"}, []string{"FailedPreStopHook"}},
		{"C30 a command that does not end", execHandler("4000"), 30, nil, []string{"0s exec a sleep 4000", "30s StopContainer a 2s", "30s StopPodSandbox"}, []string{"FailedPreStopHook"}},
		{"C30 none", sleepHandler(10), 0, nil, []string{"0s StopContainer a 2s", "0s StopPodSandbox"}, nil},
		{"C31 override 5", sleepHandler(10), 30, new(int64(5)), []string{"5s StopContainer a 2s", "5s StopPodSandbox"}, []string{"FailedPreStopHook"}},
		{"C31 override 0", sleepHandler(10), 30, new(int64(0)), []string{"0s StopContainer a 2s", "0s StopPodSandbox"}, nil},
		{"C31 override is longer", sleepHandler(40), 30, new(int64(60)), []string{"40s StopContainer a 20s", "40s StopPodSandbox"}, nil},
		{"a failure does not keep the container", execHandler("x"), 30, nil, []string{"0s exec a sleep x", "0s StopContainer a 30s", "0s StopPodSandbox"}, []string{"FailedPreStopHook"}},
		{"what is none", v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{}}, 30, nil, []string{"0s StopContainer a 30s", "0s StopPodSandbox"}, []string{"FailedPreStopHook"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, l := timed(t, fake.Config{})
				if tc.name == "no runner of handlers" {
					h.cfg.Hooks = nil
					h.restart()
				}
				pod := testPod("a")
				preStop(pod, "a", tc.handler)
				runPod(t, h, pod)
				pod.DeletionGracePeriodSeconds = &tc.deletion
				h.kill(pod, tc.override)
				require.Equal(t, tc.want, l.take())
				want := []string{"Killing spec.containers{a}"}
				for _, e := range tc.events {
					want = append(want, e+" spec.containers{a}")
				}
				require.Equal(t, want, h.takeEvents())
				require.Empty(t, h.m.preStops.over, "no state of stopped containers remains")
			})
		})
	}
}

// A preStop handler ends with its container, without a failure event: if the pod is stopped, if
// its liveness probe failed, and for a sidecar whose turn has not come.
func TestPreStopEndsWithItsContainer(t *testing.T) {
	app, sidecar := testPod("a"), initPod(testPod("app"), "s1")
	for _, tc := range []struct {
		name    string
		pod     *v1.Pod
		handler v1.LifecycleHandler
		// lives is the time from the start of the handler until the container ends.
		lives time.Duration
		probe bool
		want  []string
	}{
		{"sleep", app, sleepHandler(20), 3500 * time.Millisecond, false, []string{"4s StopContainer a 26s", "4s StopPodSandbox"}},
		{"sleep that ends first", app, sleepHandler(2), 3500 * time.Millisecond, false, []string{"2s StopContainer a 28s", "2s StopPodSandbox"}},
		{"failed liveness probe", app, sleepHandler(20), 3500 * time.Millisecond, true, []string{"4s StopContainer a 26s"}},
		{"sidecar", sidecar, sleepHandler(20), 3500 * time.Millisecond, false, []string{"0s StopContainer app 30s", "9s StopContainer s1 21s", "9s StopPodSandbox"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				die, name := make(chan struct{}), "a"
				if len(tc.pod.Spec.InitContainers) > 0 {
					name = "s1"
				}
				h, l := timed(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{
					name: func(ctx context.Context, _ *fake.Process) int {
						select {
						case <-die:
						case <-ctx.Done():
						}
						return 1
					},
					"app": slow(9 * time.Second),
				}, fake.SleepUntilStopped)})
				pod := tc.pod.DeepCopy()
				pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
				preStop(pod, name, tc.handler)
				if tc.probe {
					podfacts.Container(pod, name).LivenessProbe = &v1.Probe{}
				}
				status := runPod(t, h, pod)
				synctest.Wait()
				l.begin = time.Now()
				time.AfterFunc(tc.lives, func() { close(die) })
				if tc.probe {
					r := h.m.SyncPod(t.Context(), SyncRequest{Pod: pod, Status: status, Probes: found(status.Newest(name), probe.Liveness, probe.Failure)})
					require.NoError(t, r.Err())
				} else {
					h.kill(pod, nil)
				}
				require.ElementsMatch(t, tc.want, l.take())
				require.NotContains(t, strings.Join(h.takeEvents(), "\n"), "Failed")
			})
		})
	}
}

// A handler that does not end within the grace period continues until its container has stopped,
// at the shortest grace period after the end.
func TestOverduePreStopEndsWithItsContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := timed(t, fake.Config{Programs: fake.Always(stubborn)})
		h.cfg.Hooks = handlers(func(ctx context.Context, container, _ string) (string, error) {
			<-ctx.Done()
			l.add("handler of %s ends", container)
			return "", ctx.Err()
		})
		h.restart()
		pod := initPod(testPod("app"), "s1", "s2")
		for _, name := range []string{"app", "s1", "s2"} {
			preStop(pod, name, execHandler("4000"))
		}
		runPod(t, h, pod)
		synctest.Wait()
		l.begin = time.Now()
		h.kill(pod, new(int64(30)))
		require.ElementsMatch(t, []string{
			"30s StopContainer app 2s", "30s StopContainer s1 2s", "30s StopContainer s2 2s",
			"32s handler of app ends", "32s handler of s1 ends", "32s handler of s2 ends", "32s StopPodSandbox",
		}, l.take())
	})
}

// #83916: a shorter grace period takes effect at any stage of the first kill: in a preStop
// handler, in the wait for a turn, or in a stop. A finished handler is not repeated; an
// interrupted one is.
func TestShortenedGrace(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler string
		app     fake.Program
		after   time.Duration
		want    []string
	}{
		{
			name: "during preStop", handler: "20", app: fake.SleepUntilStopped, after: 5 * time.Second,
			want: []string{
				"0s exec app sleep 20", "5s exec app sleep 20",
				"9s StopContainer app 2s", "9s StopContainer s1 2s", "9s StopPodSandbox",
			},
		},
		{
			name: "during the stop, and the sidecar's wait", handler: "1", app: stubborn, after: 10 * time.Second,
			want: []string{
				"0s exec app sleep 1", "1s StopContainer app 59s",
				"10s StopContainer app 4s", "14s StopContainer s1 2s", "14s StopPodSandbox",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, l := timed(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"app": tc.app}, fake.SleepUntilStopped)})
				pod := initPod(testPod("app"), "s1")
				preStop(pod, "app", execHandler(tc.handler))
				got := runPod(t, h, pod)
				synctest.Wait()
				shorter := errors.New("the grace period is shorter now")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(tc.after, func() { cancel(shorter) })
				begin := time.Now()
				require.ErrorIs(t, h.m.KillPod(ctx, KillRequest{Pod: pod, Status: got, GraceSeconds: new(int64(60))}).Err(), shorter)
				require.Equal(t, tc.after, time.Since(begin), "it returns at once")
				h.kill(pod, new(int64(4)))
				require.ElementsMatch(t, tc.want, l.take())
				require.True(t, h.status(pod).Stopped())
			})
		})
	}
}

// Without a spec, the annotations supply the handler and grace period: for a container that was
// removed from the spec, and for a pod whose spec is not available. They are not read for an
// orphan.
func TestRestoredSpecs(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request KillRequest
		want    []string
	}{
		{"restored", KillRequest{Restore: true}, []string{"0s exec a sleep 3", "3s StopContainer a 27s", "3s StopPodSandbox"}},
		{"restored with less time", KillRequest{Restore: true, GraceSeconds: new(int64(2))}, []string{"0s exec a sleep 3", "2s StopContainer a 2s", "2s StopPodSandbox"}},
		{"not in the spec", KillRequest{Pod: testPod("b")}, []string{"0s exec a sleep 3", "3s StopContainer a 27s", "3s StopPodSandbox"}},
		{"not in the spec of a pod that is deleted", KillRequest{Pod: deletedIn(9, testPod("b"))}, []string{"0s exec a sleep 3", "3s StopContainer a 6s", "3s StopPodSandbox"}},
		{"orphan", KillRequest{}, []string{"0s StopContainer a 2s", "0s StopPodSandbox"}},
		{"orphan with more time", KillRequest{GraceSeconds: new(int64(9))}, []string{"0s StopContainer a 9s", "0s StopPodSandbox"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, l := timed(t, fake.Config{})
				pod := testPod("a")
				preStop(pod, "a", execHandler("3"))
				tc.request.Status = runPod(t, h, pod)
				require.NoError(t, h.m.KillPod(t.Context(), tc.request).Err())
				require.Equal(t, tc.want, l.take())
			})
		})
	}
}

func deletedIn(seconds int64, pod *v1.Pod) *v1.Pod {
	pod.DeletionGracePeriodSeconds = &seconds
	return pod
}

// A handler that ignores the end of its context delays neither the stop nor, without a bound, the
// kill. Overdue lists it. Its container gets no second handler: a further attempt waits within
// the grace period.
func TestStubbornHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := timed(t, fake.Config{})
		release := make(chan struct{})
		var runs atomic.Int32
		h.cfg.Hooks = handlers(func(context.Context, string, string) (string, error) {
			runs.Add(1)
			<-release
			return "", nil
		})
		h.restart()
		pod := testPod("a")
		preStop(pod, "a", sleepHandler(0))
		got := runPod(t, h, pod)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, h.m.KillPod(ctx, KillRequest{Pod: pod, Status: got}).Err(), context.DeadlineExceeded)
		require.Empty(t, l.take())
		require.Equal(t, []string{"shop/web(0d1e) container a"}, h.m.Overdue())
		h.kill(pod, new(int64(3)))
		require.Equal(t, []string{"9s StopContainer a 2s", "9s StopPodSandbox"}, l.take())
		require.Equal(t, int32(1), runs.Load())
		close(release)
		synctest.Wait()
		require.Empty(t, h.m.Overdue())
	})
}

// lateTimer is a context whose timer fires some time after its deadline.
type lateTimer struct {
	context.Context
	deadline time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.deadline, true }

// On a loaded machine the runtime may end a command at the deadline before the caller's timer
// fires. The kill's deadline then ended the handler, which is run again.
func TestHandlerCutOffBeforeOurTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := timed(t, fake.Config{})
		runs := 0
		h.cfg.Hooks = handlers(func(ctx context.Context, _, _ string) (string, error) {
			runs++
			deadline, ok := ctx.Deadline()
			if !ok {
				<-ctx.Done()
				return "", ctx.Err()
			}
			time.Sleep(time.Until(deadline))
			return "", status.Error(codes.DeadlineExceeded, "context deadline exceeded")
		})
		h.restart()
		pod := testPod("a")
		preStop(pod, "a", sleepHandler(0))
		got := runPod(t, h, pod)
		late, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
		defer cancel()
		result := h.m.KillPod(lateTimer{late, time.Now().Add(time.Second)}, KillRequest{Pod: pod, Status: got})
		require.ErrorIs(t, result.Err(), context.DeadlineExceeded)
		require.Empty(t, h.takeEvents()[1:], "but for Killing")
		h.kill(pod, new(int64(3)))
		require.Equal(t, 2, runs)
		require.Equal(t, []string{"4.1s StopContainer a 2s", "4.1s StopPodSandbox"}, l.take())
	})
}

// If the agent dies at any call of a kill, and the call takes effect, a new agent stops the rest.
func TestCrashWhileStopping(t *testing.T) {
	for n := range 5 {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, fake.Config{})
			pod := initPod(testPod("a", "b"), "s1")
			got := runPod(t, h, pod)
			h.dieAfter(n + 1)
			result := h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: got, GraceSeconds: new(int64(1))})
			require.Equal(t, n < 4, result.Err() != nil, "three containers and a sandbox take four calls")
			h.reborn()
			h.kill(pod, nil)
			require.True(t, h.status(pod).Stopped())
		})
	}
}

// OnStep reports the steps of a kill per container.
func TestKillSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := timed(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"app": slow(5 * time.Second)}, fake.SleepUntilStopped)})
		pod := initPod(testPod("app"), "s1")
		preStop(pod, "app", sleepHandler(10))
		got := runPod(t, h, pod)
		var mu sync.Mutex
		var last string
		at := func(d time.Duration) *string {
			step := new(string)
			time.AfterFunc(d, func() {
				mu.Lock()
				defer mu.Unlock()
				*step = last
			})
			return step
		}
		atPreStop, atStop := at(time.Second), at(11*time.Second)
		result := h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: got, OnStep: func(step string) {
			mu.Lock()
			defer mu.Unlock()
			last = step
		}})
		require.NoError(t, result.Err())
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, "container app: running the preStop handler for at most 30 s; container s1: waiting at most 30s for [app] to stop", *atPreStop)
		require.Equal(t, "container app: stopping within 20s; container s1: waiting at most 30s for [app] to stop", *atStop)
		require.Equal(t, "stopping 1 sandboxes", last)
	})
}

// A handler that panics has failed, and does not affect others.
func TestPreStopPanics(t *testing.T) {
	var p preStops
	r := p.run(t.Context(), "1", "a", func() error { panic("boom") })
	require.True(t, r.await(t.Context()))
	var panicked *run.PanicError
	require.ErrorAs(t, r.err, &panicked)
	require.Empty(t, p.runs)
}
