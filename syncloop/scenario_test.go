package syncloop_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// node is a syncer that records what it is asked to do.
type node struct {
	mu    sync.Mutex
	calls []string
	fail  map[string]error
}

func (n *node) note(call string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, call)
	err := n.fail[call]
	delete(n.fail, call)
	return err
}

func (n *node) take() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	calls := n.calls
	n.calls = nil
	return calls
}

func (n *node) SyncPod(_ context.Context, w podworkers.Work) (bool, error) {
	return false, n.note("sync " + w.Pod.Name)
}

func (n *node) SyncTerminatingPod(_ context.Context, w podworkers.Work) error {
	return n.note(fmt.Sprintf("terminating %s grace %d", w.Pod.Name, w.GracePeriodSeconds))
}

func (n *node) SyncTerminatedPod(_ context.Context, w podworkers.Work) error {
	return n.note("terminated " + w.Pod.Name)
}

func (n *node) SyncTerminatingOrphan(_ context.Context, o podworkers.Orphan, _ time.Time) error {
	return n.note("orphan " + string(o.UID))
}

// agent is a Loop with real workers, a real Merger and a scripted node.
type agent struct {
	*node
	t       *testing.T
	merger  *podsource.Merger
	workers *podworkers.Workers
	handler *syncloop.DefaultHandler
	runtime []podworkers.Orphan
}

func newAgent(t *testing.T, perSource bool, sources ...string) *agent {
	t.Helper()
	a := &agent{node: &node{fail: map[string]error{}}, t: t}
	var err error
	a.merger, err = podsource.NewMerger(podsource.MergerConfig{Sources: sources})
	require.NoError(t, err)
	var loop *syncloop.Loop
	a.workers, err = podworkers.New(podworkers.Config{
		Syncer: a.node,
		Resync: func(uid types.UID) { loop.Emit(syncloop.Event{Kind: syncloop.SyncDue, UID: uid}) },
		OnTransition: func(tr podworkers.Transition) {
			if tr.To == podworkers.StateFinished {
				loop.Emit(syncloop.Event{Kind: syncloop.Housekeeping})
			}
		},
	})
	require.NoError(t, err)
	a.handler, err = syncloop.NewHandler(syncloop.HandlerConfig{
		Workers: a.workers, Sources: a.merger, PerSource: perSource,
		RuntimePods: func(context.Context) ([]podworkers.Orphan, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.runtime, nil
		},
	})
	require.NoError(t, err)
	loop, err = syncloop.New(syncloop.Config{Handler: a.handler, Pods: a.merger})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, a.workers.Run(ctx)) })
	running.Go(func() { require.NoError(t, loop.Run(ctx)) })
	t.Cleanup(func() { stop(); running.Wait() })
	return a
}

func (a *agent) set(source string, pods ...*v1.Pod) {
	a.t.Helper()
	require.NoError(a.t, a.merger.Set(source, pods))
}

func pod(name string, uid types.UID, edits ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: uid}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// L2, L3: a pod of a source that is ready is removed while another source has
// not been heard.
func TestScenarioRemoveWhileSourceUnseen(t *testing.T) {
	for _, perSource := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(t, perSource, "file", "api")
			a.set("file", pod("a", "1"))
			require.Equal(t, []string{"sync a"}, a.take())
			a.set("file")
			if perSource {
				require.Equal(t, []string{"terminating a grace 1", "terminated a"}, a.take())
				require.False(t, a.workers.State("unknown").DesiredKnown)
				return
			}
			time.Sleep(30 * time.Second)
			require.Empty(t, a.take(), "strict: it goes on")
			a.set("api")
			time.Sleep(2 * time.Second)
			require.Equal(t, []string{"terminating a grace 1", "terminated a"}, a.take())
			time.Sleep(4 * time.Second)
			synctest.Wait()
			require.Empty(t, a.workers.Pods(), "and is forgotten")
		})
	}
}

// A stop that fails is repeated, housekeeping or not.
func TestScenarioStopFails(t *testing.T) {
	for _, sources := range [][]string{{"file"}, {"file", "api"}} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(t, true, sources...)
			a.set("file", pod("a", "1"))
			a.take()
			a.fail["terminating a grace 1"] = errors.New("runtime says no")
			a.set("file")
			require.Contains(t, a.take(), "terminating a grace 1")
			time.Sleep(16 * time.Second)
			require.Equal(t, []string{"terminating a grace 1", "terminated a"}, a.take())
		})
	}
}

// L7: a pod restarts under its UID within one housekeeping period, although
// containers of the predecessor are still in the runtime; in per-source mode also
// while another source has not been heard.
func TestScenarioRestartSameUID(t *testing.T) {
	for _, sources := range [][]string{{"file"}, {"file", "api"}} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(t, true, sources...)
			a.set("file", pod("a", "1"))
			a.take()
			a.set("file")
			synctest.Wait()
			a.mu.Lock()
			a.runtime = []podworkers.Orphan{{UID: "1", Name: "a", Namespace: "ns"}}
			a.mu.Unlock()
			a.set("file", pod("a", "1"))
			time.Sleep(2 * time.Second)
			require.Equal(t, []string{"terminating a grace 1", "terminated a", "sync a"}, a.take())
		})
	}
}

// L8: a pod that only the runtime has is killed once it is certain that nobody
// wants it.
func TestScenarioOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, true, "file", "api")
		a.mu.Lock()
		a.runtime = []podworkers.Orphan{{UID: "stray", Name: "s", Namespace: "ns"}, {UID: "1"}}
		a.mu.Unlock()
		a.set("file")
		time.Sleep(time.Minute)
		require.Empty(t, a.take())
		a.set("api", pod("a", "1"))
		require.Equal(t, []string{"sync a"}, a.take())
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"orphan stray"}, a.take())
		a.mu.Lock()
		a.runtime = nil
		a.mu.Unlock()
		time.Sleep(10 * time.Second)
		require.Empty(t, a.take())
	})
}

// L15: after a restart of the agent a pod that is being deleted is not started
// again.
func TestScenarioRestartWhileTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, false, "api")
		at, grace := metav1.Now(), int64(20)
		a.set("api", pod("a", "1", func(p *v1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace }))
		require.Equal(t, []string{"terminating a grace 20", "terminated a"}, a.take())
		a.set("api")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Empty(t, a.workers.Pods())
		require.Empty(t, a.take())
	})
}

// S5 seen from the workers: another spec under a fixed UID is an update, under a
// new UID the old pod ends before the new one begins, since both are static.
func TestScenarioManifestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, false, "file")
		spec := func(host string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Hostname = host } }
		a.set("file", pod("a", "1", spec("x")))
		require.Equal(t, []string{"sync a"}, a.take())
		a.set("file", pod("a", "1", spec("y")))
		require.Equal(t, []string{"sync a"}, a.take())
		a.set("file", pod("a", "2", spec("z")))
		require.Equal(t, []string{"terminating a grace 1", "terminated a", "sync a"}, a.take())
	})
}
