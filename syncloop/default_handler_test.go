package syncloop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
)

// fakeWorkers records the handler's updates; a test sets the states.
type fakeWorkers struct {
	calls   []string
	states  map[types.UID]podworkers.PodState
	known   map[types.UID]podworkers.KnownPod
	mirrors map[string]bool
	forget  []types.UID
	fail    error
	updated []*v1.Pod // pods of the updates
}

func newFakeWorkers() *fakeWorkers {
	return &fakeWorkers{states: map[types.UID]podworkers.PodState{}, known: map[types.UID]podworkers.KnownPod{}, mirrors: map[string]bool{}}
}

func (w *fakeWorkers) UpdatePod(u podworkers.Update) error {
	call := string(u.Type)
	switch {
	case u.Pod != nil:
		call += " " + string(u.Pod.UID)
	case u.RuntimePod != nil:
		call += " orphan " + string(u.RuntimePod.UID)
	}
	if u.MirrorPod != nil {
		call += " mirror " + string(u.MirrorPod.UID)
	}
	if u.Kill != nil && u.Kill.GracePeriodSeconds != nil {
		call += fmt.Sprint(" grace ", *u.Kill.GracePeriodSeconds)
	}
	w.calls, w.updated = append(w.calls, call), append(w.updated, u.Pod)
	return w.fail
}

func (w *fakeWorkers) SyncKnownPods(pods []*v1.Pod) map[types.UID]podworkers.KnownPod {
	w.calls = append(w.calls, "known "+names(pods))
	known := map[types.UID]podworkers.KnownPod{}
	for uid, k := range w.known {
		known[uid] = k
	}
	return known
}

func (w *fakeWorkers) State(uid types.UID) podworkers.PodState {
	return w.states[uid]
}

func (w *fakeWorkers) MirrorTerminating(name string) bool { return w.mirrors[name] }

func (w *fakeWorkers) Forget(uid types.UID) bool {
	w.forget = append(w.forget, uid)
	w.states[uid] = podworkers.PodState{}
	return true
}

func (w *fakeWorkers) take() []string {
	calls := w.calls
	w.calls = nil
	return calls
}

type readiness map[string]bool

func (r readiness) Ready() bool               { return r["api"] && r["file"] }
func (r readiness) SourceReady(s string) bool { return r[s] }

func newTestHandler(t *testing.T, edit func(*HandlerConfig)) (*DefaultHandler, *fakeWorkers) {
	t.Helper()
	w := newFakeWorkers()
	cfg := HandlerConfig{Workers: w}
	if edit != nil {
		edit(&cfg)
	}
	h, err := NewHandler(cfg)
	require.NoError(t, err)
	return h, w
}

func from(source string) func(*v1.Pod) {
	return func(pod *v1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, podfacts.ConfigSource, source) }
}

func mirrorPod(name string, uid types.UID) *v1.Pod {
	return testPod(name, uid, from("api"), func(pod *v1.Pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, podfacts.ConfigMirror, "hash")
	})
}

func createdAt(sec int64) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.CreationTimestamp = metav1.Unix(sec, 0) }
}

func inPhase(p v1.PodPhase) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Status.Phase = p } }

func isDeleting(pod *v1.Pod) { now := metav1.Unix(1, 0); pod.DeletionTimestamp = &now }

func state(s podworkers.State) podworkers.PodState { return podworkers.PodState{State: s} }

func admitterRefusing(calls *[]string, refused ...types.UID) Admitter {
	return AdmitterFunc(func(pod *v1.Pod, active []*v1.Pod) error {
		*calls = append(*calls, pod.Name+" beside "+names(active))
		for _, uid := range refused {
			if pod.UID == uid {
				return Reject("OutOfcpu", "too much")
			}
		}
		return nil
	})
}

// L4, L15 in part: an ended pod keeps its resources until its containers have stopped; a
// terminating pod keeps them until it has terminated.
func TestHandlerActivePods(t *testing.T) {
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.Phase = func(pod *v1.Pod) v1.PodPhase { return map[types.UID]v1.PodPhase{"2": v1.PodFailed}[pod.UID] }
	})
	h.HandlePodAdditions(t.Context(), []*v1.Pod{testPod("a", "1", inPhase(v1.PodSucceeded)), testPod("b", "2"), testPod("c", "3", isDeleting), testPod("d", "4"), mirrorPod("e", "m")})
	require.Equal(t, []string{"create 1", "create 2", "create 3", "create 4"}, w.take(), "a mirror pod without a static pod is stored only")
	w.states["4"] = state(podworkers.StateTerminating)
	require.Equal(t, "c,d", names(h.ActivePods()))
	w.states["1"], w.states["4"] = state(podworkers.StateTerminating), state(podworkers.StateTerminated)
	require.Equal(t, "a,c", names(h.ActivePods()))
}

// gated adds a readiness gate, "gate", and conditions that are true.
func gated(conditions ...v1.PodConditionType) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "gate"}}
		for _, c := range conditions {
			pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: c, Status: v1.ConditionTrue})
		}
	}
}

func TestHandlerReconcile(t *testing.T) {
	var pruned []string
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.Prune = func(_ context.Context, uid types.UID, all bool) { pruned = append(pruned, fmt.Sprint(uid, all)) }
	})
	h.HandlePodReconcile(t.Context(), []*v1.Pod{
		testPod("no gates", "1"),
		testPod("not ready", "2", gated(v1.ContainersReady), func(pod *v1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{
				Type: v1.PodReady, Status: v1.ConditionFalse, Message: `corresponding condition of pod readiness gate "gate" does not exist.`,
			})
		}),
		testPod("gate opened", "3", gated(v1.ContainersReady, "gate")),
		testPod("consistent", "4", gated(v1.ContainersReady, "gate", v1.PodReady)),
		testPod("gate closed", "5", gated(v1.ContainersReady, v1.PodReady)),
	})
	require.Equal(t, []string{"sync 3", "sync 5"}, w.take())

	w.states["8"] = podworkers.PodState{State: podworkers.StateSyncing}
	w.states["9"] = podworkers.PodState{State: podworkers.StateTerminating}
	h.HandlePodReconcile(t.Context(), []*v1.Pod{testPod("ended by another writer", "8", inPhase(v1.PodFailed)), testPod("terminating", "9", inPhase(v1.PodFailed))})
	require.Equal(t, []string{"sync 8"}, w.take())
	runs := testPod("runs", "8", inPhase(v1.PodRunning))
	h.HandlePodReconcile(t.Context(), []*v1.Pod{runs})
	require.Empty(t, w.take())
	require.Same(t, runs, h.Desired().Get("8"), "Desired has the newest version")

	evicted := testPod("evicted", "6", inPhase(v1.PodFailed), func(pod *v1.Pod) { pod.Status.Reason = "Evicted" })
	h.HandlePodReconcile(t.Context(), []*v1.Pod{evicted})
	w.states["6"] = podworkers.PodState{State: podworkers.StateTerminated, Evicted: true}
	h.HandlePodReconcile(t.Context(), []*v1.Pod{evicted})
	h.HandlePodReconcile(t.Context(), []*v1.Pod{testPod("not yet", "7", inPhase(v1.PodRunning), func(pod *v1.Pod) { pod.Status.Reason = "Evicted" })})
	require.Equal(t, []string{"6false", "6true"}, pruned, "all containers are pruned only after termination")
}

// Mirror pods and pods that were not admitted have no worker: the handler neither syncs nor prunes
// them.
func TestHandlerReconcilesOnlyPodsWithWorkers(t *testing.T) {
	var calls []string
	pruned := 0
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.Admit = admitterRefusing(&calls, "1")
		cfg.Prune = func(context.Context, types.UID, bool) { pruned++ }
	})
	evicted := func(pod *v1.Pod) { pod.Status.Phase, pod.Status.Reason = v1.PodFailed, "Evicted" }
	open := gated(v1.ContainersReady, "gate")
	refused, mirror := testPod("refused", "1", open), mirrorPod("mirror", "m")
	open(mirror)
	h.HandlePodAdditions(t.Context(), []*v1.Pod{refused, mirror})
	require.Empty(t, w.take())
	for range 2 {
		h.HandlePodReconcile(t.Context(), []*v1.Pod{refused, mirror})
		require.Empty(t, w.take())
		require.Zero(t, pruned)
		evicted(refused)
		evicted(mirror)
	}
}

// A leftover whose kill the workers refuse is an error.
func TestHandlerRefusedKill(t *testing.T) {
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.RuntimePods = func(context.Context) ([]podworkers.RuntimePod, error) {
			return []podworkers.RuntimePod{{UID: "u-stray", Name: "stray", Namespace: "other"}}, nil
		}
	})
	for _, w.fail = range []error{errors.New("full"), podworkers.ErrAgentStopping} {
		require.ErrorContains(t, h.HandlePodCleanups(t.Context()), "kill orphaned pod other/stray (u-stray): refused by the workers")
	}
}

// Working counts pods by kind, and cleaners receive the state of each pod.
func TestCleanupWorking(t *testing.T) {
	var got map[PodKind]int
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.FinalCleaners = []Cleaner{{Name: "metrics", Clean: func(_ context.Context, c *Cleanup) error {
			got = c.Working()
			require.True(t, c.Desired("new"))
			require.True(t, c.Desired("m"))
			require.False(t, c.Desired("b"))
			require.True(t, c.Running("new"), "the final cleaners get restarted pods")
			require.True(t, c.PossiblyRunning("c"))
			require.False(t, c.PossiblyRunning("b"))
			require.False(t, c.PossiblyRunning("gone"))
			return nil
		}}}
		cfg.RuntimePods = func(context.Context) ([]podworkers.RuntimePod, error) {
			return []podworkers.RuntimePod{{UID: "stray"}}, nil
		}
	})
	h.HandlePodAdditions(t.Context(), []*v1.Pod{testPod("new", "new", from("file")), mirrorPod("new", "m")})
	w.known = map[types.UID]podworkers.KnownPod{
		"a": {State: podworkers.StateSyncing, HasConfig: true}, "b": {State: podworkers.StateTerminated, HasConfig: true, Undesired: true},
		"c": {State: podworkers.StateTerminating, Undesired: true},
	}
	require.NoError(t, h.HandlePodCleanups(t.Context()))
	require.Equal(t, map[PodKind]int{
		{podworkers.StateSyncing, "desired", false}: 1, {podworkers.StateSyncing, "desired", true}: 1,
		{podworkers.StateTerminated, "orphan", false}: 1, {podworkers.StateTerminating, "runtime_only", false}: 2,
	}, got)
}

// Prepare runs before the workers receive the desired pods. A Cleaner whose Prepare fails is
// skipped. Panics and an unreachable runtime do not stop the other steps.
func TestHandlerCleanersFail(t *testing.T) {
	var ran []string
	var h *DefaultHandler
	var w *fakeWorkers
	do := func(step string, err error) error {
		ran = append(ran, fmt.Sprint(step, " after ", len(w.calls)))
		return err
	}
	cleaner := func(name string, prepared, cleaned error) Cleaner {
		return Cleaner{
			Name:    name,
			Prepare: func(context.Context) error { return do("prepare "+name, prepared) },
			Clean:   func(context.Context, *Cleanup) error { return do("clean "+name, cleaned) },
		}
	}
	panics := Cleaner{Name: "c", Clean: func(context.Context, *Cleanup) error { panic("oh") }}
	h, w = newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.Cleaners = []Cleaner{cleaner("a", errors.New("no list"), nil), panics, cleaner("b", nil, nil)}
		cfg.FinalCleaners = []Cleaner{cleaner("d", nil, errors.New("stays"))}
		cfg.RuntimePods = func(context.Context) ([]podworkers.RuntimePod, error) { return nil, errors.New("no response") }
	})
	h.HandlePodAdditions(t.Context(), []*v1.Pod{testPod("x", "x")})
	w.take()
	err := h.HandlePodCleanups(t.Context())
	require.Equal(t, []string{"prepare a after 0", "prepare b after 0", "prepare d after 0", "clean b after 1", "clean d after 2"}, ran)
	require.EqualError(t, err, "a: no list\nc panicked: oh\nlist the pods of the runtime: no response\nd: stays")
	var errs []string
	for _, s := range h.CleanerStatuses() {
		errs = append(errs, fmt.Sprint(s.Name, " ", s.Err))
	}
	require.Equal(t, []string{"a a: no list", "c c panicked: oh", "b <nil>", "d d: stays"}, errs)

	// After the stop no further step starts.
	ctx, stop := context.WithCancel(t.Context())
	stop()
	ran = nil
	require.NoError(t, h.HandlePodCleanups(ctx))
	require.Empty(t, ran)
}

// A deadline causes one event, and another event if it changes.
func TestDeadlines(t *testing.T) {
	begin := time.Now()
	after := func(seconds int64) func(*v1.Pod) {
		return func(pod *v1.Pod) { pod.Spec.ActiveDeadlineSeconds = &seconds }
	}
	started := func(pod *v1.Pod) *metav1.Time {
		if pod.Name == "not started" {
			return nil
		}
		return &metav1.Time{Time: begin}
	}
	pods := []*v1.Pod{testPod("not started", "n", after(1)), testPod("a", "a", after(10)), testPod("b", "b", after(20))}
	d := deadlines{}
	for _, c := range []struct {
		at    time.Duration
		past  []types.UID
		pause time.Duration
	}{
		{8500 * time.Millisecond, nil, time.Second},
		{9500 * time.Millisecond, nil, 500 * time.Millisecond},
		{10 * time.Second, []types.UID{"a"}, time.Second},
		{11 * time.Second, nil, time.Second},
		{20 * time.Second, []types.UID{"b"}, time.Second},
	} {
		past, pause := d.check(pods, started, begin.Add(c.at))
		require.Equal(t, c.past, past, c.at)
		require.Equal(t, c.pause, pause, c.at)
	}
	pods[1] = testPod("a", "a", after(15))
	past, _ := d.check(pods, started, begin.Add(21*time.Second))
	require.Equal(t, []types.UID{"a"}, past)
	d.check(nil, started, begin)
	require.Empty(t, d)
}

// The smallest deadline expires at once, the largest one never. A pod without a deadline or
// without a start is never past it.
func TestExtremeDeadlines(t *testing.T) {
	begin := metav1.NewTime(time.Now())
	for seconds, past := range map[int64]bool{
		math.MinInt64: true, -1: true, 0: true, 1: false, math.MaxInt32: false,
		math.MaxInt64 / int64(time.Second): false, math.MaxInt64/int64(time.Second) + 1: false, math.MaxInt64: false,
	} {
		pod := testPod("a", "a", func(pod *v1.Pod) { pod.Spec.ActiveDeadlineSeconds = &seconds })
		require.Equal(t, past, PastActiveDeadline(pod, &begin, begin.Time), seconds)
		require.False(t, PastActiveDeadline(pod, nil, begin.Add(time.Hour)))
		require.False(t, PastActiveDeadline(testPod("no limit", "1"), &begin, begin.Add(time.Hour)))
		emitted, pause := deadlines{}.check([]*v1.Pod{pod}, func(*v1.Pod) *metav1.Time { return &begin }, begin.Time)
		require.Equal(t, past, len(emitted) == 1, seconds)
		require.Equal(t, deadlinePeriod, pause, seconds)
	}
}

// With PerSource, a pod of a ready source restarts under its UID while another source is not
// ready, and a pod that only the runtime has ends if a ready source named it. Other cleanup waits.
func TestHandlerRestartsPerSource(t *testing.T) {
	var restarted []types.UID
	var inRuntime []podworkers.RuntimePod
	var listErr error
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.Sources, cfg.PerSource = readiness{"file": true, "": true}, true
		cfg.OnRestart = func(pod *v1.Pod) { restarted = append(restarted, pod.UID) }
		cfg.RuntimePods = func(context.Context) ([]podworkers.RuntimePod, error) { return inRuntime, listErr }
	})
	restarting := podworkers.PodState{State: podworkers.StateFinished, RestartRequested: true}
	w.states = map[types.UID]podworkers.PodState{"1": restarting, "2": restarting, "3": state(podworkers.StateFinished)}
	h.HandlePodAdditions(t.Context(), []*v1.Pod{testPod("a", "1", from("file")), testPod("b", "2", from("api")), testPod("c", "3", from("file"))})
	w.take()
	require.NoError(t, h.HandlePodCleanups(t.Context()))
	require.Equal(t, []string{"create 1"}, w.take())
	require.Equal(t, []types.UID{"1"}, w.forget)
	require.Equal(t, w.forget, restarted)

	inRuntime = []podworkers.RuntimePod{
		{UID: "removed", Source: "file"}, {UID: "removed too", Source: "file"}, {UID: "unread", Source: "api"}, {UID: "unknown"},
		{UID: "3", Source: "file"}, {UID: "known", Source: "file"},
	}
	w.states["known"] = state(podworkers.StateTerminating)
	require.NoError(t, h.HandlePodCleanups(t.Context()))
	require.Equal(t, []string{"kill orphan removed grace 1", "kill orphan removed too grace 1"}, w.take())
	listErr = errors.New("no response")
	require.ErrorIs(t, h.HandlePodCleanups(t.Context()), listErr)

	h, w = newTestHandler(t, func(cfg *HandlerConfig) { cfg.PerSource = true })
	pod := testPod("a", "1", from("file"))
	h.HandlePodAdditions(t.Context(), []*v1.Pod{pod})
	w.take()
	h.HandlePodRemoves(t.Context(), []*v1.Pod{pod})
	require.NotEmpty(t, w.take(), "without Sources every source is ready")
}

// A pod that the workers refused at first has not restarted when they take it.
func TestRefusedCreateIsNoRestart(t *testing.T) {
	restarts := 0
	h, w := newTestHandler(t, func(cfg *HandlerConfig) { cfg.OnRestart = func(*v1.Pod) { restarts++ } })
	w.fail = podworkers.ErrInvalidUpdate
	h.HandlePodAdditions(t.Context(), []*v1.Pod{testPod("a", "1")})
	for range 2 {
		require.NoError(t, h.HandlePodCleanups(t.Context()))
		require.Contains(t, w.take(), "create 1")
	}
	w.fail = nil
	require.NoError(t, h.HandlePodCleanups(t.Context()))
	require.Zero(t, restarts)
	require.NoError(t, h.HandlePodCleanups(t.Context()))
	require.Equal(t, 1, restarts, "its worker has ended")
}

func TestNewHandlerRefuses(t *testing.T) {
	_, err := NewHandler(HandlerConfig{})
	require.ErrorContains(t, err, "HandlerConfig.Workers is required")
	clean := func(context.Context, *Cleanup) error { return nil }
	for what, bad := range map[string]HandlerConfig{
		"Cleaners[1].Name is required":       {Cleaners: []Cleaner{{Name: "a", Clean: clean}, {Clean: clean}}},
		"Cleaners[0].Clean is required":      {Cleaners: []Cleaner{{Name: "a"}}},
		"FinalCleaners[0].Name is required":  {FinalCleaners: []Cleaner{{Clean: clean}}},
		"FinalCleaners[0].Clean is required": {FinalCleaners: []Cleaner{{Name: "a"}}},
	} {
		bad.Workers = newFakeWorkers()
		_, err := NewHandler(bad)
		require.EqualError(t, err, "syncloop: HandlerConfig."+what)
	}
}
