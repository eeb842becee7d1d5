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

// Harness is a stage under test, and the state behind it. Open and Holds are required.
type Harness struct {
	// Open opens the stage on the state, as an agent does at its start. The state is
	// empty at first. What was opened before is not used again: its agent was killed.
	Open func() (stages.Stage, error)
	// Holds looks at the state, without the stage, and tells whether anything of the
	// pod is there.
	Holds func(uid types.UID) bool
	// Use does what the pod does with what was prepared, for a stage of which there is
	// something only then, such as logs. Nil means that Prepare makes something.
	Use func(s stages.Stage, pod *v1.Pod) error
	// Halfway are the states in which an agent that is killed within Prepare or Release
	// may leave a pod, by name: each func makes one for a pod of which there is nothing.
	Halfway map[string]func(pod *v1.Pod) error
	// Block has the next Release of a pod wait for something that does not happen before
	// unblock is called, such as a server. Nil means that nothing can hang.
	Block func(uid types.UID) (unblock func())
}

// patience is how long a call may take, limit a rule.
const (
	patience = 10 * time.Second
	limit    = time.Minute
)

// Run tests that a stage keeps the contract of stages.Stage, one subtest per rule. New
// is called for each and ends what it starts with t.Cleanup. The suite runs in a
// synctest bubble as well as outside of one.
func Run(t *testing.T, New func(t testing.TB) Harness) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if err := play(t.Context(), r, New(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// rule is one rule of the contract.
type rule struct {
	name string
	play func(*trial) error
}

func play(ctx context.Context, r rule, h Harness) error {
	f := fields.Of("stagestest: Harness")
	f.Required("Open", h.Open)
	f.Required("Holds", h.Holds)
	if err := f.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &trial{Harness: h, ctx: ctx}
	if err := t.open(); err != nil {
		return err
	}
	return r.play(t)
}

// trial is a stage that is tried.
type trial struct {
	Harness
	ctx   context.Context
	stage stages.Stage
	pods  int
}

// open opens the stage, also as a kill of the agent and its next start.
func (t *trial) open() (err error) {
	if t.stage, err = t.Open(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return nil
}

// pod returns a pod that was not there before.
func (t *trial) pod() *v1.Pod {
	t.pods++
	n := fmt.Sprintf("%04d", t.pods)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + n, UID: types.UID("00000000-0000-4000-8000-00000000" + n)}}
}

// hold prepares a pod and has it use that. There must be something of it then.
func (t *trial) hold(pod *v1.Pod) error {
	if err := t.stage.Prepare(t.ctx, pod); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if t.Use != nil {
		if err := t.Use(t.stage, pod); err != nil {
			return fmt.Errorf("use: %w", err)
		}
	}
	return t.expect(pod, true)
}

// release releases a pod. There must be nothing of it then.
func (t *trial) release(pod *v1.Pod) error {
	if err := t.stage.Release(t.ctx, pod.UID); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return t.expect(pod, false)
}

// expect compares the state and the leftovers with what has to be there.
func (t *trial) expect(pod *v1.Pod, there bool) error {
	if holds := t.Holds(pod.UID); holds != there {
		return fmt.Errorf("pod %s: the state has something of it: %v, want %v", pod.UID, holds, there)
	}
	named, err := t.named(pod.UID)
	if err == nil && named != there {
		return fmt.Errorf("pod %s is among the leftovers: %v, want %v", pod.UID, named, there)
	}
	return err
}

// expectNamed checks that what is there is among the leftovers.
func (t *trial) expectNamed(pod *v1.Pod) error {
	named, err := t.named(pod.UID)
	if err == nil && !named && t.Holds(pod.UID) {
		return fmt.Errorf("pod %s is not among the leftovers although something of it is there", pod.UID)
	}
	return err
}

// named tells whether a pod is among the leftovers.
func (t *trial) named(uid types.UID) (bool, error) {
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
