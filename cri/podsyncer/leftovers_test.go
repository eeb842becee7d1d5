package podsyncer

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/podworkers/stages"
)

// diary is what happens for the first time, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.lines, line) {
		d.lines = append(d.lines, line)
	}
}

// stage writes what is asked of it.
type stage struct {
	name  string
	diary *diary
}

func (s stage) Prepare(context.Context, *v1.Pod) error {
	s.diary.write("prepare " + s.name)
	return nil
}

func (s stage) Release(context.Context, types.UID) error {
	s.diary.write("release " + s.name)
	return nil
}

func (s stage) Leftovers(context.Context) ([]types.UID, error) { return nil, nil }

// Stages are prepared before the sandbox; what is released when a pod has stopped goes
// before its containers, the rest after them.
func TestStagesOfAPod(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		d := &diary{}
		w.stages = []stages.Entry{
			{Name: "used", Release: stages.Stopped, Stage: stage{"used", d}},
			{Name: "kept", Release: stages.Gone, Stage: stage{"kept", d}},
		}
		w.calls.Intercept(func(_ context.Context, call string, do func() error) error {
			d.write(call)
			return do()
		})
		w.run(5*time.Second, newPod("1", v1.RestartPolicyAlways, "a"))
		w.set()
		w.sleep(10 * time.Second)
		require.Equal(t, []string{
			"prepare used", "prepare kept", "RunPodSandbox", "CreateContainer", "StartContainer",
			"StopContainer", "StopPodSandbox", "release used", "RemoveContainer", "RemovePodSandbox", "release kept",
		}, d.lines)
		w.requireNothingLeft()
	})
}

// A pod that has ended gives back what it used, and keeps the rest while a source
// names it.
func TestStagesOfAPodThatHasEnded(t *testing.T) {
	inWorld(t, fake.Config{Programs: fake.Always(fake.Exit(0))}, func(w *world) {
		d := &diary{}
		w.stages = []stages.Entry{
			{Name: "used", Release: stages.Stopped, Stage: stage{"used", d}},
			{Name: "kept", Release: stages.Gone, Stage: stage{"kept", d}},
		}
		w.run(time.Minute, newPod("1", v1.RestartPolicyNever, "a"))
		require.Equal(t, []string{"prepare used", "prepare kept", "release used"}, d.lines)
		require.Len(t, w.containers(), 1)
		w.set()
		w.sleep(10 * time.Second)
		require.Equal(t, "release kept", d.lines[len(d.lines)-1])
		w.requireNothingLeft()
	})
}

// What an agent that was killed has left is released although the removal of another
// pod hangs.
func TestAReleaseThatHangsHoldsUpNobody(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		w.run(5*time.Second, newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "b"))
		w.crash()
		var once sync.Once
		freed := make(chan struct{})
		w.calls.Intercept(func(_ context.Context, call string, do func() error) error {
			if call == "RemovePodSandbox" {
				first := false
				once.Do(func() { first = true })
				if first {
					<-freed
				}
			}
			return do()
		})
		w.set()
		w.start()
		w.sleep(30 * time.Second)
		require.Len(t, w.sandboxes(), 1)
		require.Len(t, must(w.agent.folders.Leftovers(w.t.Context())), 1)
		close(freed)
		w.sleep(30 * time.Second)
		w.requireNothingLeft()
	})
}

// listedStage has what somebody puts there, and counts how often it is asked for that.
type listedStage struct {
	stage
	mu     sync.Mutex
	has    []types.UID
	listed int
}

func (s *listedStage) Leftovers(context.Context) ([]types.UID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed++
	return slices.Clone(s.has), nil
}

func (s *listedStage) Release(_ context.Context, uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has = slices.DeleteFunc(s.has, func(other types.UID) bool { return other == uid })
	return nil
}

// take is how often it was asked since the last call.
func (s *listedStage) take() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, s.listed = s.listed, 0
	return n
}

// Nobody reads what all pods have while they stay what they are, but now and then; what a pod
// leaves that goes is found at once, and what somebody else has left soon.
func TestLeftoversAreLookedForWhenThereMayBeSome(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		s := &listedStage{stage: stage{"listed", &diary{}}}
		w.stages = []stages.Entry{{Name: "listed", Release: stages.Gone, Stage: s}}
		w.run(20*time.Second, newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "b"))
		s.take()
		w.sleep(time.Minute)
		require.Equal(t, 6, s.take())

		s.mu.Lock()
		s.has = []types.UID{"2", "of another agent"}
		s.mu.Unlock()
		w.sleep(13 * time.Second)
		s.mu.Lock()
		require.Equal(t, []types.UID{"2"}, s.has)
		s.mu.Unlock()
		w.set(newPod("1", v1.RestartPolicyAlways, "a"))
		w.sleep(3 * time.Second)
		s.mu.Lock()
		require.Empty(t, s.has)
		s.mu.Unlock()
	})
}
