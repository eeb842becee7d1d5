package syncloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

func answer(err error) Admitter {
	return AdmitterFunc(func(*v1.Pod, []*v1.Pod) error { return err })
}

func TestAdmitAll(t *testing.T) {
	no, wait := Reject("OutOfpods", "%d is too many", 3), errors.New("wait")
	var unset *Rejection
	require.EqualError(t, no, "OutOfpods: 3 is too many")
	panics := AdmitterFunc(func(*v1.Pod, []*v1.Pod) error { panic(wait) })
	for _, c := range []struct {
		admitters []Admitter
		want      error
	}{
		{nil, nil},
		{[]Admitter{answer(nil), answer(unset), answer(nil)}, nil},
		{[]Admitter{answer(nil), answer(no), answer(wait)}, no},
		{[]Admitter{answer(wait), answer(no)}, wait},
		{[]Admitter{answer(nil), panics}, wait},
	} {
		err := AdmitAll(c.admitters...).Admit(testPod("a", "a"), nil)
		require.ErrorIs(t, err, c.want)
	}
	require.ErrorContains(t, AdmitAll(answer(nil), panics).Admit(testPod("a", "a"), nil), "admitter 2 of 2 (syncloop.AdmitterFunc) panicked: wait")
}

func TestAfterDependencies(t *testing.T) {
	started := map[string]bool{"ns/db": true, "other/x": true}
	a := AfterDependencies(nil, func(name string) bool { return started[name] })
	require.NoError(t, a.Admit(testPod("a", "a"), nil))
	require.NoError(t, a.Admit(testPod("a", "a", needs("db,other/x")), nil))
	err := a.Admit(testPod("a", "a", needs("db,web")), nil)
	require.ErrorContains(t, err, "pod ns/web")
	var why *Rejection
	require.NotErrorAs(t, err, &why)
}

// What an Admitter may answer, and what becomes of the pod.
func TestHandlerAnswers(t *testing.T) {
	var unset *Rejection
	for _, c := range []struct {
		name           string
		answer         error
		admitted, told bool
	}{
		{"nil", nil, true, false},
		{"a rejection that is not set", unset, true, false},
		{"a rejection", Reject("No", "no"), false, true},
		{"a rejection in a chain of errors", fmt.Errorf("quota: %w", Reject("No", "no")), false, true},
		{"another error", errors.New("later"), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told []Rejection
			h, w := newTestHandler(t, func(cfg *HandlerConfig) {
				cfg.Admit = answer(c.answer)
				cfg.OnReject = func(_ *v1.Pod, why Rejection) { told = append(told, why) }
			})
			h.HandlePodAdditions(t.Context(), []*v1.Pod{testPod("a", "a")})
			if c.admitted {
				require.Equal(t, []string{"create a"}, w.take())
				require.Empty(t, h.Unadmitted())
				return
			}
			require.Empty(t, w.take())
			require.Empty(t, h.ActivePods())
			require.Len(t, h.Unadmitted(), 1)
			require.Equal(t, c.told, h.Unadmitted()[0].Rejected)
			require.ErrorIs(t, h.Unadmitted()[0].Err, c.answer)
			require.Equal(t, c.told, len(told) == 1)

			// A rejection is final, another answer is asked for again, ready or not.
			h.HandlePodSyncs(t.Context(), []Sync{{UID: "a", Kinds: Kinds(0).With(SyncDue)}})
			require.NoError(t, h.HandlePodCleanups(t.Context()))
			require.Equal(t, []string{"known a"}, w.take())
			h.cfg.Admit = answer(nil)
			h.cfg.Sources = readiness{}
			require.NoError(t, h.HandlePodCleanups(t.Context()))
			if c.told {
				require.Empty(t, w.take())
				return
			}
			require.Equal(t, []string{"create a"}, w.take())
			require.Empty(t, h.Unadmitted())
			require.Equal(t, "a", names(h.ActivePods()))
		})
	}
}

// A held pod is asked about when it changes, removed without a word to the
// workers, and what runs of it is not killed: the agent may have been restarted.
func TestHandlerHeld(t *testing.T) {
	var logged bytes.Buffer
	ready := false
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		cfg.RuntimePods = func(context.Context) ([]podworkers.RuntimePod, error) {
			return []podworkers.RuntimePod{{UID: "a"}}, nil
		}
		cfg.Admit = AdmitterFunc(func(pod *v1.Pod, _ []*v1.Pod) error {
			if ready && pod.UID == "a" {
				return nil
			}
			if pod.UID == "c" {
				return Reject("No", "no")
			}
			return errors.New("not yet")
		})
	})
	a, b, c := testPod("a", "a"), testPod("b", "b"), testPod("c", "c")
	for range 2 { // the second time as after a panic
		h.HandlePodAdditions(t.Context(), []*v1.Pod{a, b, c})
	}
	for range 3 {
		require.NoError(t, h.HandlePodCleanups(t.Context()))
	}
	require.Equal(t, []string{"known a,b,c", "known a,b,c", "known a,b,c"}, w.take())
	require.Equal(t, 2, strings.Count(logged.String(), "held back"), "once per pod")
	h.HandlePodRemoves(t.Context(), []*v1.Pod{b})
	require.Empty(t, w.take())
	ready = true
	h.HandlePodUpdates(t.Context(), []*v1.Pod{a, c})
	require.Equal(t, []string{"create a"}, w.take())
	h.HandlePodRemoves(t.Context(), []*v1.Pod{c})
	require.Empty(t, w.take())
	require.Empty(t, h.refused)
}

// A verdict that cannot be recorded is none yet.
func TestHandlerOnRejectPanics(t *testing.T) {
	broken := true
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.Admit = answer(Reject("No", "no"))
		cfg.OnReject = func(*v1.Pod, Rejection) {
			if broken {
				panic("no disk")
			}
		}
	})
	h.HandlePodAdditions(t.Context(), []*v1.Pod{testPod("a", "a")})
	require.ErrorContains(t, h.Unadmitted()[0].Err, "OnReject panicked: no disk")
	require.False(t, h.Unadmitted()[0].Rejected)
	broken = false
	require.NoError(t, h.HandlePodCleanups(t.Context()))
	require.True(t, h.Unadmitted()[0].Rejected)
	require.Equal(t, []string{"known a"}, w.take())
}

// Pods that are new together are admitted in order, each beside those before it.
func TestHandlerOrder(t *testing.T) {
	var asked []string
	var logged bytes.Buffer
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		cfg.Admit = refuse(&asked, "2")
		cfg.Order = ByDependency(nil, ByPriority)
	})
	pods := []*v1.Pod{testPod("a", "1", needs("c")), testPod("b", "2", withPriority(5)), testPod("c", "3", needs("a")), testPod("d", "4")}
	h.HandlePodAdditions(t.Context(), pods)
	require.Equal(t, []string{"b beside ", "c beside ", "a beside c", "d beside a,c"}, sortedActive(asked))
	require.Equal(t, []string{"create 3", "create 1", "create 4"}, w.take())
	require.Equal(t, 1, strings.Count(logged.String(), "ns/a -> ns/c -> ns/a"))

	// So are those that start again together.
	asked = nil
	require.NoError(t, h.HandlePodCleanups(t.Context()))
	require.Equal(t, []string{"known a,b,c,d", "create 3", "create 1", "create 4"}, w.take())
	require.Equal(t, []string{"c beside ", "a beside c", "d beside a,c"}, sortedActive(asked))
	require.Equal(t, 1, strings.Count(logged.String(), "ns/a -> ns/c -> ns/a"), "told once")
}

// sortedActive sorts what stands behind "beside".
func sortedActive(asked []string) []string {
	var out []string
	for _, a := range asked {
		pod, active, _ := strings.Cut(a, " beside ")
		list := strings.Split(active, ",")
		slices.Sort(list)
		out = append(out, pod+" beside "+strings.Join(list, ","))
	}
	return out
}

// With an admitter, 1,000 pods at once are not a million questions to the workers.
func TestHandlerAsksWorkersOncePerPod(t *testing.T) {
	h, w := newTestHandler(t, func(cfg *HandlerConfig) { cfg.Admit = answer(nil) })
	counting := &countingWorkers{fakeWorkers: w}
	h.cfg.Workers = counting
	var pods []*v1.Pod
	for i := range 1000 {
		pods = append(pods, testPod(fmt.Sprint(i), types.UID(fmt.Sprint(i))))
	}
	h.HandlePodAdditions(t.Context(), pods)
	require.Less(t, counting.states, 10_000)
}

type countingWorkers struct {
	*fakeWorkers
	states int
}

func (w *countingWorkers) State(uid types.UID) podworkers.PodState {
	w.states++
	return w.fakeWorkers.State(uid)
}
