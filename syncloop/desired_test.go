package syncloop

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// L14: an old pod is removed after a new one of the same name was stored.
func TestDesiredSuccessor(t *testing.T) {
	var d Desired
	old, successor, mirror := testPod("a", "1", from("file")), testPod("a", "2", from("file")), mirrorPod("a", "m")
	d.Set(old)
	d.Set(mirror)
	d.Set(successor)
	d.Remove(old)
	require.Same(t, successor, d.ByName("ns", "a"))
	require.Same(t, mirror, d.MirrorOf(successor))
	require.Empty(t, d.OrphanMirrors())
	require.Equal(t, types.UID("2"), d.Translate("m"))
	require.Nil(t, d.Get("1"))

	// The other way round the old one keeps the name.
	d.Set(old)
	d.Remove(old)
	require.Same(t, successor, d.ByName("ns", "a"))

	newMirror := mirrorPod("a", "m2")
	d.Set(newMirror)
	d.Remove(mirror)
	require.Same(t, newMirror, d.MirrorOf(successor))
	d.Remove(successor)
	require.Equal(t, []*v1.Pod{newMirror}, d.OrphanMirrors())
	require.Equal(t, types.UID("m2"), d.Translate("m2"))
	d.Remove(newMirror)
	require.Empty(t, d.Mirrors())
	d.Remove(newMirror)
}

func TestDesiredIndexes(t *testing.T) {
	var d Desired
	require.Nil(t, d.Get("x"))
	require.Nil(t, d.ByName("a", "b"))
	require.Empty(t, d.Pods())
	require.Equal(t, types.UID("x"), d.Translate("x"))
	d.Set(testPod("young", "1", createdAt(2)))
	d.Set(testPod("old", "2", createdAt(1)))
	require.Equal(t, "old,young", names(d.Pods()))
	d.Set(testPod("renamed", "1"))
	require.Nil(t, d.ByName("ns", "young"))
	require.NotNil(t, d.ByName("ns", "renamed"))
	require.Nil(t, d.MirrorOf(testPod("renamed", "1")), "it is not static")
}

func TestShouldSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := int64(30)
		began := metav1.Now()
		pods := []*v1.Pod{testPod("no limit", "1"), testPod("limit", "2", func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = &limit })}
		src := ShouldSync(0, func() []*v1.Pod { return pods }, func(pod *v1.Pod, now time.Time) bool { return PastActiveDeadline(pod, &began, now) })
		events := make(chan Event, 100)
		go func() { _ = src.Run(t.Context(), func(e Event) { events <- e }) }()
		require.Equal(t, Event{Kind: SyncDue, UID: "2"}, <-events)
		require.Equal(t, 30*time.Second, time.Since(began.Time))
		require.False(t, PastActiveDeadline(pods[1], nil, time.Now()))
	})
}
