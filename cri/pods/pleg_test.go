package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// P9 to P13, E6: whatever becomes of calls and events on the way, with events and without, what a
// PLEG shows in the end is true. Random histories are with package pleg.
func TestPLEGOnFaultyRuntimes(t *testing.T) {
	for _, text := range []string{
		"every event: twice", "every 2nd event: drop", "every 3rd event: late 3s", "every 2nd event: swap", "every event: drop",
		"every 5th event: Unavailable \"broken\"", "3rd call: restart\n19th call: restart\n60th call: restart\n200th call: restart", "every GetContainerEvents: Unimplemented",
		"every 4th PodSandboxStatus: empty reply\nevery 5th ContainerStatus: empty reply",
	} {
		faults, err := script.Parse(text)
		require.NoError(t, err)
		for _, mode := range []pleg.Mode{pleg.Generic, pleg.Evented} {
			if mode == pleg.Generic && strings.Contains(text, "event") {
				continue // it hears of none
			}
			t.Run(fmt.Sprint(mode, " ", text), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { seesThrough(t, faults, mode) })
			})
		}
	}
}

// seesThrough starts, ends and removes pods past the faults, between a runtime and its PLEG.
func seesThrough(t *testing.T, faults script.Script, mode pleg.Mode) {
	h := newHarness(t, fake.Config{})
	rt := h.runtime.RuntimeService.(*fake.Runtime)
	hand := hand{h, rt, testPod("a", "b")}
	player, err := script.New(script.Config{Script: faults, Runtime: rt, Restart: func(context.Context, bool) error {
		go func() { _ = rt.Restart(t.Context(), fake.RestartOptions{Down: 2 * time.Second}) }()
		return nil
	}})
	require.NoError(t, err)
	cfg := observe.Config{Runtime: player, RuntimeName: h.cfg.RuntimeName}
	if mode == pleg.Generic {
		cfg.Runtime = deaf{player}
	}
	o, err := observe.New(cfg)
	require.NoError(t, err)
	p, err := pleg.New(pleg.Config{Runtime: o})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	uids := []types.UID{"0", "1", "2", "3"}
	for i := range 24 { // what fails because the runtime is away has not happened
		do := []func(context.Context, types.UID) error{hand.Start, hand.Exit, hand.Start, hand.Start, hand.Remove}[i%5]
		_ = do(t.Context(), uids[i%4])
		time.Sleep(1300 * time.Millisecond)
	}
	time.Sleep(10 * time.Second) // a runtime that was away is back
	differences := func() (out []string) {
		for _, uid := range uids {
			truth, err := h.seen.PodStatus(t.Context(), uid)
			got, gotErr := p.Get(uid)
			if err != nil || gotErr != nil || !slices.Equal(facts(truth), facts(got)) {
				out = append(out, fmt.Sprintf("%s is shown as %v (%v), it is %v (%v)", uid, facts(got), gotErr, facts(truth), err))
			}
		}
		return out
	}
	wrong := differences()
	for range 90 { // the list that makes up for lost events comes every 300 s
		if len(wrong) == 0 {
			break
		}
		time.Sleep(10 * time.Second)
		wrong = differences()
	}
	require.Empty(t, wrong)
	cancel()
	require.NoError(t, <-done)
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
