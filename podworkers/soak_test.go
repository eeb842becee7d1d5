package podworkers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podworkerstest"
)

// 500 pods live, fail, end and come again for hours, and no rule is broken; then
// nothing is left of them (W28).
func TestSoak(t *testing.T) {
	d := 2 * time.Hour
	if testing.Short() {
		d = 10 * time.Minute
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSoak(t, 500)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.workers.Run(ctx) }()
		for end := time.Now().Add(d); time.Now().Before(end); {
			s.input()
			time.Sleep(rand.N(500 * time.Millisecond))
			if s.inputs%100 == 0 {
				s.verify()
			}
		}
		s.end()
		t.Logf("%d inputs, %d calls", s.inputs, s.calls.Load())
		stop()
		require.NoError(t, <-ran)
	})
}

type soak struct {
	t       *testing.T
	workers *podworkers.Workers
	rec     *podworkerstest.Recorder
	uids    []types.UID
	cleaned time.Time
	inputs  int
	calls   atomic.Int64

	mu      sync.Mutex // Resync comes from elsewhere
	desired map[types.UID]*v1.Pod
}

func newSoak(t *testing.T, pods int) *soak {
	s := &soak{t: t, desired: map[types.UID]*v1.Pod{}}
	for i := range pods {
		s.uids = append(s.uids, types.UID(fmt.Sprint(i)))
	}
	cfg := podworkers.Config{
		TerminalPodStopped: func(types.UID) bool { return rand.N(2) == 0 },
		Resync: func(uid types.UID) {
			s.mu.Lock()
			pod := s.desired[uid]
			s.mu.Unlock()
			if pod != nil && rand.N(10) > 0 { // now and then nobody answers
				_ = s.workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateSync, Pod: pod})
			}
		},
	}
	s.rec = podworkerstest.Record(&cfg)
	for call := podworkers.CallSyncPod; call <= podworkers.CallSyncTerminatedPod; call++ {
		s.rec.On("", call, s.call)
	}
	var err error
	s.workers, err = podworkers.New(cfg)
	require.NoError(t, err)
	return s
}

// newPod returns another version of a pod. Every third is static; four share a name.
func (s *soak) newPod(i int) *v1.Pod {
	pod := podOf(s.uids[i])
	pod.ResourceVersion = fmt.Sprint(s.inputs)
	if i%3 == 0 {
		pod.Name, pod.Annotations = fmt.Sprint("static-", i/12), map[string]string{"kubernetes.io/config.source": "file"}
	}
	switch rand.N(12) {
	case 0:
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	case 1:
		pod.Status.Phase = v1.PodSucceeded
	case 2:
		pod.DeletionGracePeriodSeconds = new(rand.Int64N(60) - 2)
	}
	return pod
}

func (s *soak) input() {
	s.inputs++
	if time.Since(s.cleaned) > 2*time.Second {
		s.housekeep()
	}
	i := rand.N(len(s.uids))
	u := podworkers.Update{Type: podworkers.UpdateCreate, Pod: s.newPod(i)}
	switch rand.N(10) {
	case 0, 1:
		s.want(u.Pod.UID, nil)
		return
	case 2:
		u = podworkers.Update{Type: podworkers.UpdateKill, RuntimePod: &podworkers.RuntimePod{UID: s.uids[i], Name: "o", Namespace: "default"}}
	case 3, 4:
		u.Type, u.Kill = podworkers.UpdateKill, &podworkers.KillOptions{Evict: rand.N(2) == 0, Status: func(*v1.PodStatus) { _ = i }}
		if rand.N(2) == 0 {
			u.Kill.GracePeriodSeconds = new(rand.Int64N(40) - 1)
		}
	case 5, 6, 7:
		u.Type = podworkers.UpdateUpdate
		fallthrough
	default:
		s.want(u.Pod.UID, u.Pod)
	}
	if u.Type == podworkers.UpdateKill && rand.N(2) == 0 {
		if u.Kill == nil {
			u.Kill = &podworkers.KillOptions{}
		}
		u.Kill.Done = make(chan struct{})
	}
	s.instantly(func() { require.NoError(s.t, s.workers.UpdatePod(u)) })
}

func (s *soak) want(uid types.UID, pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod == nil {
		delete(s.desired, uid)
		return
	}
	s.desired[uid] = pod
}

// housekeep does what a sync loop does.
func (s *soak) housekeep() {
	s.cleaned = time.Now()
	var desired []*v1.Pod
	for _, uid := range s.uids {
		if pod := s.desired[uid]; pod != nil {
			desired = append(desired, pod)
		}
	}
	var known map[types.UID]podworkers.KnownPod
	s.instantly(func() { known = s.workers.SyncKnownPods(desired) })
	for _, pod := range desired {
		if _, ok := known[pod.UID]; !ok {
			s.instantly(func() {
				require.NoError(s.t, s.workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod}))
			})
		}
	}
}

// instantly makes an input; whatever the calls do, it takes no time (INV-2).
func (s *soak) instantly(input func()) {
	before := time.Now()
	input()
	require.Zero(s.t, time.Since(before), "INV-2")
}

func (s *soak) verify() {
	synctest.Wait()
	require.NoError(s.t, s.rec.Check(s.workers))
}

// end lets everything come to its end.
func (s *soak) end() {
	for _, uid := range s.uids {
		s.want(uid, nil)
	}
	for i := 0; len(s.workers.Pods()) > 0; i++ {
		require.Less(s.t, i, 1000, "INV-17: %v", s.workers.Pods())
		s.housekeep()
		time.Sleep(2 * time.Second)
	}
	s.verify()
	require.Empty(s.t, s.workers.Left(), "INV-18")
}

// call takes a while and ends in one of the ways in which calls end.
func (s *soak) call(ctx context.Context, _ podworkers.Work) (terminal bool, err error) {
	s.calls.Add(1)
	took := rand.N(5 * time.Second)
	switch rand.N(20) {
	case 0:
		time.Sleep(10 * took) // and does not listen
	default:
		if terminal, err = podworkerstest.Take(took, podworkerstest.Succeed)(ctx, podworkers.Work{}); err != nil {
			return terminal, err
		}
	}
	switch rand.N(20) {
	case 0:
		panic("soak")
	case 1:
		runtime.Goexit()
	case 2, 3:
		return false, errBoom
	case 4:
		return false, podworkers.RetryAt(errBoom, time.Now().Add(rand.N(2*time.Minute)-time.Minute))
	case 5:
		return true, nil
	}
	return false, nil
}
