package pods

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/script"
	"github.com/podwright/podwright/cri/pods/observe"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// hand makes things happen to pods like one that it is given.
type hand struct {
	*harness
	runtime cri.RuntimeService
	like    *v1.Pod
}

var _ plegtest.Pods = hand{}

func (h hand) pod(uid types.UID) *v1.Pod {
	pod := h.like.DeepCopy()
	pod.UID, pod.Name = uid, string(uid)
	return pod
}

func (h hand) Start(ctx context.Context, uid types.UID) error {
	status, err := h.seen.PodStatus(ctx, uid)
	if err != nil {
		return err
	}
	result := h.m.SyncPod(ctx, SyncRequest{Pod: h.pod(uid), Status: status})
	return result.Err()
}

func (h hand) Exit(ctx context.Context, uid types.UID) error {
	status, err := h.seen.PodStatus(ctx, uid)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range status.Running() {
		errs = append(errs, h.runtime.StopContainer(ctx, c.ID.ID, 0))
	}
	return errors.Join(errs...)
}

func (h hand) Remove(ctx context.Context, uid types.UID) error {
	status, err := h.seen.PodStatus(ctx, uid)
	if err != nil {
		return err
	}
	if result := h.m.KillPod(ctx, KillRequest{Status: status}); result.Err() != nil {
		return result.Err()
	}
	if status, err = h.seen.PodStatus(ctx, uid); err != nil {
		return err
	}
	return h.garbage.RemovePod(ctx, uid, status)
}

// plegRuntimes are a runtime with events and one without.
func plegRuntimes() map[string]fake.Config {
	return map[string]fake.Config{"events": {}, "none": {Unimplemented: []string{"GetContainerEvents"}}}
}

// An Observer is a pleg.Runtime, on a runtime with events and on one without.
func TestPLEGRuntime(t *testing.T) {
	for name, cfg := range plegRuntimes() {
		t.Run(name, func(t *testing.T) {
			plegtest.Run(t, plegtest.Config{Around: synctest.Test, Start: func(t *testing.T) plegtest.Subject {
				h := newHarness(t, cfg)
				return plegtest.Subject{Runtime: h.seen, Pods: hand{h, h.runtime.RuntimeService, testPod("a", "b")}}
			}})
		})
	}
}

func TestContainerdPLEGRuntime(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		hand := hand{h, h.runtime.RuntimeService, pod}
		plegtest.Run(t, plegtest.Config{Start: func(*testing.T) plegtest.Subject {
			return plegtest.Subject{Runtime: h.seen, Pods: hand}
		}})
	})
}

// deaf is a runtime that hides its events.
type deaf struct{ Runtime }

// twins are two PLEGs on one runtime, each behind faults of its own: one with
// events and one without. What happens, and what is true, is seen past the faults.
type twins struct {
	t     *testing.T
	rt    *fake.Runtime
	hand  hand
	plegs map[pleg.Mode]*pleg.PLEG
	rng   *rand.Rand
}

func newTwins(t *testing.T, s script.Script, seed uint64) *twins {
	h := newHarness(t, fake.Config{})
	rt := h.runtime.RuntimeService.(*fake.Runtime)
	w := &twins{
		t: t, rt: rt, hand: hand{h, rt, testPod("a", "b")},
		plegs: map[pleg.Mode]*pleg.PLEG{}, rng: rand.New(rand.NewPCG(seed, 2)),
	}
	for _, mode := range []pleg.Mode{pleg.Generic, pleg.Evented} {
		player, err := script.New(script.Config{Script: s, Runtime: rt, Restart: func(context.Context, bool) error {
			go w.restart()
			return nil
		}})
		require.NoError(t, err)
		cfg := observe.Config{Runtime: player, RuntimeName: h.cfg.RuntimeName}
		if mode == pleg.Generic {
			cfg.Runtime = deaf{player}
		}
		o, err := observe.New(cfg)
		require.NoError(t, err)
		w.plegs[mode], err = pleg.New(pleg.Config{Runtime: o})
		require.NoError(t, err)
	}
	return w
}

// restart takes the runtime away for two seconds.
func (w *twins) restart() {
	if err := w.rt.Restart(w.t.Context(), fake.RestartOptions{Down: 2 * time.Second}); err != nil {
		w.t.Log(err)
	}
}

func (w *twins) uid(i int) types.UID { return types.UID(fmt.Sprintf("pod-%d", i)) }

const twinPods = 4

// step does something; what fails because the runtime is away has not happened.
func (w *twins) step() {
	ctx, uid := w.t.Context(), w.uid(w.rng.IntN(twinPods))
	switch w.rng.IntN(12) {
	case 0, 1, 2, 3:
		_ = w.hand.Start(ctx, uid)
	case 4, 5, 6:
		_ = w.hand.Exit(ctx, uid)
	case 7, 8:
		_ = w.hand.Remove(ctx, uid)
	case 9:
		w.removeExited(ctx, uid)
	case 10:
		w.rt.SetClockSkew(time.Duration(w.rng.IntN(5)-2) * time.Hour)
	default:
		if w.rng.IntN(6) == 0 { // after many restarts in a row there is little of events
			w.restart()
		}
	}
	time.Sleep(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
}

func (w *twins) removeExited(ctx context.Context, uid types.UID) {
	status, err := w.hand.seen.PodStatus(ctx, uid)
	if err != nil {
		return
	}
	for _, c := range status.Containers {
		if c.State == pleg.StateExited {
			_ = w.rt.RemoveContainer(ctx, c.ID.ID)
		}
	}
}

// differences tells where a PLEG does not show the truth.
func (w *twins) differences() (out []string) {
	for mode, p := range w.plegs {
		present := 0
		for i := range twinPods {
			truth, err := w.hand.seen.PodStatus(w.t.Context(), w.uid(i))
			if err != nil { // a script may take the runtime away as late as now
				return []string{err.Error()}
			}
			if !truth.Empty() {
				present++
			}
			got, err := p.Get(w.uid(i))
			if err != nil || !slices.Equal(facts(truth), facts(got)) {
				out = append(out, fmt.Sprintf("%v shows %s as %v (%v), it is %v", mode, w.uid(i), facts(got), err, facts(truth)))
			}
		}
		if n := len(p.Pods()); n != present {
			out = append(out, fmt.Sprintf("%v shows %d pods, there are %d", mode, n, present))
		}
	}
	return out
}

// facts is what must agree, down to details that no list shows.
func facts(s *pleg.PodStatus) (out []string) {
	for _, sb := range s.Sandboxes {
		out = append(out, fmt.Sprint(sb.ID[:8], sb.State, sb.Attempt, sb.CreatedAt.UnixNano()))
	}
	for _, c := range s.Containers {
		out = append(out, fmt.Sprint(c.Name, c.ID.ID[:8], c.State, c.ExitCode, c.RestartCount, c.FinishedAt.UnixNano()))
	}
	return out
}

// P9 to P13, E6: whatever becomes of calls and events on the way, with events and
// without the end is the same, and true.
func TestModesAgreeOnFaultyRuntimes(t *testing.T) {
	seeds := uint64(16)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		faults := script.Random(seed, script.RandomConfig{
			Rules: 12, Events: true, Restarts: true, MaxDelay: 5 * time.Second,
			Calls: []string{"ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus", "GetContainerEvents"},
		})
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { twinsAgree(t, faults, seed) }) })
	}
	// What nobody thought of comes by chance, these by name.
	for i, text := range []string{
		"every event: twice", "every 2nd event: drop", "every 3rd event: late 3s", "every 2nd event: swap", "every event: drop",
		"every 5th event: Unavailable \"broken\"", "3rd call: restart\n19th call: restart\n60th call: restart\n200th call: restart", "every GetContainerEvents: Unimplemented",
		"every 4th PodSandboxStatus: empty reply\nevery 5th ContainerStatus: empty reply",
	} {
		faults, err := script.Parse(text)
		require.NoError(t, err)
		t.Run(text, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { twinsAgree(t, faults, uint64(i)) }) })
	}
}

func twinsAgree(t *testing.T, faults script.Script, seed uint64) {
	w := newTwins(t, faults, seed)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, len(w.plegs))
	for _, p := range w.plegs {
		go func() { done <- p.Run(ctx) }()
	}
	for range 60 {
		w.step()
	}
	time.Sleep(10 * time.Second) // a runtime that was away is back
	var wrong []string
	for range 90 { // the list that makes up for lost events comes every 300 s
		if wrong = w.differences(); len(wrong) == 0 {
			break
		}
		time.Sleep(10 * time.Second)
	}
	if len(wrong) > 0 {
		t.Errorf("%v\nwith the script\n%v", wrong, faults)
	}
	cancel()
	for range w.plegs {
		require.NoError(t, <-done)
	}
}

// The two-round figure: with 5 ms per call, what a worker has just done is in the
// cache after its lists and its statuses, with events and without.
func TestFreshWithinTwoRounds(t *testing.T) {
	for name, cfg := range plegRuntimes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.Intercept = func(ctx context.Context, call string, _ any) error {
					if call != "GetContainerEvents" {
						time.Sleep(5 * time.Millisecond)
					}
					return nil
				}
				h := newHarness(t, cfg)
				r, err := plegtest.Bench{
					PLEG: pleg.Config{Runtime: h.seen}, Pods: hand{h, h.runtime.RuntimeService, testPod("a", "b")},
					Idle: 5, Watch: time.Second, Rounds: 5,
				}.Run(t.Context())
				require.NoError(t, err)
				require.Equal(t, 10*time.Millisecond, r.Fresh.Max)
				if name == "events" {
					require.LessOrEqual(t, r.SeenStart.Max, 20*time.Millisecond, "the look that an event of an earlier step started, and one more")
					require.LessOrEqual(t, r.SeenExit.Max, 20*time.Millisecond)
					require.LessOrEqual(t, r.SeenRemoval.Max, 20*time.Millisecond)
				}
			})
		})
	}
}
