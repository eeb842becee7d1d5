package stagestest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/podworkers/stages"
)

// Subject is a stage under test, and its state. Open and Holds are required.
type Subject struct {
	// Open opens the stage on the state, like a starting agent. The state is empty at first.
	// Stages of earlier calls are not used again, as if their agent was killed.
	Open func() (stages.Stage, error)
	// Holds reports whether the state has resources of the pod. It must read the state without
	// the stage.
	Holds func(uid types.UID) bool
	// Use simulates the pod's use of the prepared resources, for a stage whose resources appear
	// only then, such as logs. Optional: without it Prepare must create a resource.
	Use func(s stages.Stage, pod *v1.Pod) error
	// Halfway maps names to the partial states that an agent killed during Prepare or Release
	// may leave. Each func creates one for a pod without resources. Optional.
	Halfway map[string]func(pod *v1.Pod) error
	// Block makes the next Release of a pod wait, as for a server, until unblock is called.
	// Optional: without it the rules about hanging releases are skipped.
	Block func(uid types.UID) (unblock func())
}

// callTimeout bounds a call, limit a rule.
const (
	callTimeout = 10 * time.Second
	limit       = time.Minute
)

// Run tests the contract of stages.Stage, with one subtest per rule. It calls New for each rule;
// New registers its cleanup with t.Cleanup.
func Run(t *testing.T, New func(t testing.TB) Subject) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if err := play(t.Context(), r, New(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

type rule struct {
	name string
	play func(*trial) error
}

func play(ctx context.Context, r rule, h Subject) error {
	f := fields.Of("stagestest: Subject")
	f.Required("Open", h.Open)
	f.Required("Holds", h.Holds)
	if err := f.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &trial{Subject: h, ctx: ctx}
	if err := t.open(); err != nil {
		return err
	}
	t.calls.begin()
	return t.calls.explain(r.play(t))
}

// trial is one run of a rule on a stage.
type trial struct {
	Subject
	ctx   context.Context
	stage tracedStage
	calls trace
	pods  int
}

// open opens the stage; a repeated call simulates a kill and restart of the agent.
func (t *trial) open() error {
	t.calls.add("Open", "")
	stage, err := t.Open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	t.stage = tracedStage{stage, &t.calls}
	return nil
}

func (t *trial) pod() *v1.Pod {
	t.pods++
	n := fmt.Sprintf("%04d", t.pods)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + n, UID: types.UID("00000000-0000-4000-8000-00000000" + n)}}
	t.calls.name(pod)
	return pod
}

// prepareAndUse prepares and uses a pod, and requires that its resources exist then.
func (t *trial) prepareAndUse(pod *v1.Pod) error {
	if err := t.stage.Prepare(t.ctx, pod); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if t.Use != nil {
		t.calls.add("Use", pod.UID)
		if err := t.Use(t.stage.Stage, pod); err != nil {
			return fmt.Errorf("use: %w", err)
		}
	}
	return t.expect(pod, true)
}

// release releases a pod, and requires that it has no resources then.
func (t *trial) release(pod *v1.Pod) error {
	if err := t.stage.Release(t.ctx, pod.UID); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return t.expect(pod, false)
}

// expect compares the state and the leftovers with the desired state.
func (t *trial) expect(pod *v1.Pod, there bool) error {
	if has := t.Holds(pod.UID); has != there {
		return fmt.Errorf("%s: the state has resources of it: %v, want %v", pod.Name, has, there)
	}
	leftover, err := t.isLeftover(pod.UID)
	if err == nil && leftover != there {
		return fmt.Errorf("%s is among the leftovers: %v, want %v", pod.Name, leftover, there)
	}
	return err
}

// expectLeftover requires that a pod with resources is among the leftovers.
func (t *trial) expectLeftover(pod *v1.Pod) error {
	leftover, err := t.isLeftover(pod.UID)
	if err == nil && !leftover && t.Holds(pod.UID) {
		return fmt.Errorf("%s is not among the leftovers although it has resources", pod.Name)
	}
	return err
}

// isLeftover reports whether a pod is among the leftovers.
func (t *trial) isLeftover(uid types.UID) (bool, error) {
	uids, err := t.stage.Leftovers(t.ctx)
	if err != nil {
		return false, fmt.Errorf("leftovers: %w", err)
	}
	seen := map[types.UID]bool{}
	for _, u := range uids {
		if u == "" {
			return false, errors.New("leftovers: a pod without UID")
		}
		if seen[u] {
			return false, fmt.Errorf("leftovers: pod %s twice", u)
		}
		seen[u] = true
	}
	return seen[uid], nil
}
