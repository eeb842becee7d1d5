package podworkerstest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/testkit/child"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

var randomLives = flag.Int("lives", 1000, "number of random lives")

// boxes is a runtime in memory with one container per pod, a folder per pod, and published
// statuses. bug names a mistake of the syncer on it.
type boxes struct {
	bug string

	mu         sync.Mutex
	ids        int
	failStarts bool
	pods       map[types.UID]*box
}

type box struct {
	pod             *v1.Pod // of the newest instance
	running, second bool
	folder          bool
	end             chan struct{} // closed at the end of the running instance
	status          v1.ContainerStatus
	phase           v1.PodPhase
	generation      int64
}

func newBoxes(bug string) *boxes { return &boxes{bug: bug, pods: map[types.UID]*box{}} }

func (b *boxes) has(bug string) bool { return b.bug == bug }

func (b *boxes) subject() podworkerstest.Subject {
	s := podworkerstest.Subject{
		Syncer: &boxSyncer{boxes: b}, Running: b.running, Status: b.status, Held: b.held, Exit: b.exit,
		Restart:    func() podworkers.PodSyncer { return &boxSyncer{boxes: b} },
		FailStarts: func(fail bool) { b.mu.Lock(); b.failStarts = fail; b.mu.Unlock() },
	}
	if b.has("blind") {
		s.Running = func(types.UID) ([]string, error) { return nil, nil }
	}
	return s
}

func (b *boxes) at(uid types.UID) *box {
	if b.pods[uid] == nil {
		b.pods[uid] = &box{status: v1.ContainerStatus{Name: "main"}}
	}
	return b.pods[uid]
}

func (b *boxes) running(uid types.UID) (ids []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.pods[uid]; x != nil && x.running {
		ids = append(ids, x.status.ContainerID)
		if x.second {
			ids = append(ids, "second")
		}
	}
	return ids, nil
}

func (b *boxes) status(uid types.UID) *v1.PodStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.pods[uid]
	if x == nil {
		return nil
	}
	return &v1.PodStatus{Phase: x.phase, ContainerStatuses: []v1.ContainerStatus{x.status}, ObservedGeneration: x.generation}
}

func (b *boxes) held(uid types.UID) (names []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.pods[uid]; x != nil && x.folder {
		names = append(names, "folder")
	}
	return names, nil
}

func (b *boxes) exit(uid types.UID, code int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.pods[uid]; x != nil && x.running {
		x.ended(code)
	}
}

func (x *box) ended(code int32) {
	x.running, x.second = false, false
	x.status.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, ContainerID: x.status.ContainerID}}
	close(x.end)
}

type boxSyncer struct {
	*boxes
	first map[types.UID]*v1.Pod // the first version of each pod, for a bug
}

func (s *boxSyncer) SyncPod(ctx context.Context, w podworkers.Work) (bool, error) {
	select { // a start takes 10 ms
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has("sleeps under its lock") {
		go func() { _, _ = s.running(w.Pod.UID) }()
		time.Sleep(time.Second)
	}
	x, pod := s.at(w.Pod.UID), w.Pod
	if s.first == nil {
		s.first = map[types.UID]*v1.Pod{}
	}
	if s.has("stale-pod: generation") || s.has("stale-pod: image") {
		if s.first[pod.UID] == nil {
			s.first[pod.UID] = pod
		}
		pod = s.first[pod.UID]
	}
	x.folder = true
	if s.failStarts {
		return false, errors.New("no start")
	}
	if x.running && x.pod.Spec.Containers[0].Image != pod.Spec.Containers[0].Image {
		x.ended(137)
	} else if done := x.status.State.Terminated; done != nil && !x.running && x.pod.Spec.Containers[0].Image == pod.Spec.Containers[0].Image {
		if s.final(pod, done.ExitCode) {
			x.phase = v1.PodSucceeded
			if done.ExitCode != 0 {
				x.phase = v1.PodFailed
			}
			if s.has("exit-code: changed") {
				changed := *done
				changed.ExitCode++
				x.status.State.Terminated = &changed
			}
			return true, nil
		}
	}
	if !x.running {
		s.start(x, pod)
	}
	if s.has("two-instances") {
		x.second = true
	}
	x.generation = pod.Generation
	if s.has("stale-pod: image") {
		x.generation = w.Pod.Generation
	}
	x.phase = v1.PodRunning
	if s.has("early-phase") && w.Pod.Spec.RestartPolicy == v1.RestartPolicyNever {
		x.phase = v1.PodSucceeded
	}
	return false, nil
}

// final reports whether the pod ends after an exit code.
func (s *boxSyncer) final(pod *v1.Pod, code int32) bool {
	switch pod.Spec.RestartPolicy {
	case v1.RestartPolicyNever:
		return !s.has("restart-policy: Never")
	case v1.RestartPolicyOnFailure:
		return code == 0 && !s.has("restart-policy: OnFailure")
	}
	return false
}

func (s *boxSyncer) start(x *box, pod *v1.Pod) {
	s.ids++
	if done := x.status.State.Terminated; done != nil {
		x.status.RestartCount++
		x.status.LastTerminationState = v1.ContainerState{Terminated: done}
		if s.has("exit-code: lost") {
			x.status.LastTerminationState = v1.ContainerState{}
		}
	}
	x.pod, x.running, x.end = pod, true, make(chan struct{})
	x.status.ContainerID, x.status.Image = fmt.Sprint("box://", s.ids), pod.Spec.Containers[0].Image
	x.status.State = v1.ContainerState{Running: &v1.ContainerStateRunning{}}
}

// SyncTerminatingPod stops the container, which takes 3 s, or its grace period if that is shorter.
func (s *boxSyncer) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	s.mu.Lock()
	x := s.at(w.Pod.UID)
	end, running := x.end, x.running
	s.mu.Unlock()
	if running {
		takes := min(3*time.Second, time.Duration(w.GracePeriodSeconds)*time.Second)
		if s.has("slow-stop: fixed") {
			takes = 30 * time.Second
		}
		if s.has("slow-stop: own grace") {
			takes = time.Duration(*w.Pod.Spec.TerminationGracePeriodSeconds) * time.Second
		}
		select {
		case <-time.After(takes):
			s.exit(w.Pod.UID, 143)
		case <-end:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.phase != v1.PodSucceeded {
		x.phase = v1.PodFailed
	}
	return nil
}

func (s *boxSyncer) SyncTerminatedPod(_ context.Context, w podworkers.Work) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.at(w.Pod.UID)
	started := x.status.ContainerID != ""
	if s.has("resource-kept") || s.has("resource-leaked") && !started {
		return nil
	}
	if x.folder = false; w.Pod.DeletionTimestamp != nil {
		delete(s.pods, w.Pod.UID)
	}
	return nil
}

// A correct syncer violates no rule: in the standard lives, and in random ones.
func TestSuite(t *testing.T) {
	podworkerstest.Run(t, func(*testing.T) podworkerstest.Subject { return newBoxes("").subject() })
}

func TestSuiteRandomLives(t *testing.T) {
	podworkerstest.RunRandom(t, 1, *randomLives, func(*testing.T) podworkerstest.Subject { return newBoxes("").subject() })
}

// A syncer that sleeps under a lock of its views fails its life. A bubble with it would stand still.
func TestStoppedClockFails(t *testing.T) {
	child.Fails(t, "a_pod_runs_and_stops", func(t *testing.T) {
		podworkerstest.Run(t, func(*testing.T) podworkerstest.Subject { return newBoxes("sleeps under its lock").subject() })
	}, "the clock of the synctest bubble stands still", "sync.(*Mutex).Lock")
}

// Each planted bug is reported with the name of the rule that it violates.
func TestPlantedBugs(t *testing.T) {
	for _, bug := range []string{
		"blind", "slow-stop: fixed", "slow-stop: own grace", "early-phase", "restart-policy: Never", "restart-policy: OnFailure",
		"exit-code: lost", "exit-code: changed", "two-instances", "resource-kept", "resource-leaked", "stale-pod: generation", "stale-pod: image",
	} {
		t.Run(bug, func(t *testing.T) {
			rule, _, _ := strings.Cut(bug, ":")
			found := podworkerstest.Violated(t, func(*testing.T) podworkerstest.Subject { return newBoxes(bug).subject() })
			require.True(t, slices.Contains(found, rule), "found %v", found)
		})
	}
}
