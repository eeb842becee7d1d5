package syncloop

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

const benchPods = 10_000

func benchUIDs() []types.UID {
	uids := make([]types.UID, benchPods)
	for i := range uids {
		uids[i] = types.UID(fmt.Sprintf("pod-%05d", i))
	}
	return uids
}

// Once it has been emitted for, a pod costs no allocation, also after the loop has
// been there.
func TestEmitAllocatesNothing(t *testing.T) {
	d, uids := newDirty(), benchUIDs()[:1000]
	emit := func() {
		for _, uid := range uids {
			d.add(Event{Kind: PodDirty, UID: uid})
			d.add(Event{Kind: SyncDue, UID: uid})
		}
	}
	for range 2 { // both of its sets
		emit()
		d.takeSyncs()
	}
	emit()
	require.Zero(t, testing.AllocsPerRun(10, emit))
	d.takeSyncs()
	require.Zero(t, testing.AllocsPerRun(10, emit))
}

// idle is a handler that does nothing.
type idle struct{ Handler }

func (idle) HandlePodSyncs(context.Context, []Sync) {}

// One pass of the Loop in which 10,000 pods are dirty.
func BenchmarkPassOfDirtyPods(b *testing.B) {
	l, err := New(Config{Handler: idle{}, Pods: newScript()})
	require.NoError(b, err)
	uids := benchUIDs()
	b.ReportAllocs()
	for b.Loop() {
		for _, uid := range uids {
			l.Emit(Event{Kind: PodDirty, UID: uid})
		}
		l.iterate(b.Context())
	}
}

// steady returns a handler with real workers that know 10,000 pods.
func steady(b *testing.B, admit Admitter) (*DefaultHandler, []*v1.Pod) {
	workers, err := podworkers.New(podworkers.Config{Syncer: podworkers.SyncerFuncs{}})
	require.NoError(b, err)
	h, err := NewHandler(HandlerConfig{Workers: workers, Admit: admit})
	require.NoError(b, err)
	var pods []*v1.Pod
	for i, uid := range benchUIDs() {
		pods = append(pods, testPod(string(uid), uid, createdAt(int64(i/10))))
	}
	h.HandlePodAdditions(b.Context(), pods)
	return h, pods
}

// One housekeeping of 10,000 pods, of which none needs anything.
func BenchmarkHousekeeping(b *testing.B) {
	h, _ := steady(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, h.HandlePodCleanups(b.Context()))
	}
}
