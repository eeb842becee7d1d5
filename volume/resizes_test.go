package volume_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/volume"
)

// resizes says what it was told to, and keeps what it hears.
type resizes struct {
	mu     sync.Mutex
	size   int64
	expand bool
	err    error
	ended  []error
}

func (r *resizes) BeginResize(context.Context, *volume.Spec) (int64, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size, r.expand, r.err
}

func (r *resizes) EndResize(_ context.Context, _ *volume.Spec, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, err)
	return r.err
}

func (r *resizes) set(size int64, expand bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size, r.expand, r.err = size, expand, err
}

func (r *resizes) heard() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ended)
}

// A volume is expanded when its claim allows that: one that is too small meanwhile is used
// as it is, and what was not tried is not told.
func TestResizes(t *testing.T) {
	r := &resizes{size: 4}
	var fails atomic.Bool
	var told journal
	inAgent(t, func(a *agent) {
		a.cfg.Resizes = r
		a.cfg.Event = func(ref v1.ObjectReference, _, reason, _ string) { told.add(ref.Kind, " ", reason) }
		a.cfg.Claims = claims{"x": func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "x"}
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("8")}
		}}
		a.shared.Fault = in("Expand", failing(&fails))
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "disk=x")
		r.set(0, false, errBoom)
		require.ErrorIs(t, a.Prepare(t.Context(), pod), errBoom, "nobody knows how large it is")
		r.set(4, false, nil)
		time.Sleep(time.Second)
		require.NoError(t, a.Prepare(t.Context(), pod))
		time.Sleep(time.Hour)
		require.Zero(t, a.shared.Count("Expand"))
		require.Empty(t, told.take())

		fails.Store(true)
		r.set(4, true, nil)
		time.Sleep(3 * time.Minute)
		fails.Store(false)
		time.Sleep(3 * time.Minute)
		require.Equal(t, 2, a.shared.Count("Expand"))
		require.Equal(t, []error{errBoom, nil}, r.heard())
		require.Equal(t, []string{
			"Pod VolumeResizeFailed", "PersistentVolumeClaim VolumeResizeFailed",
			"Pod FileSystemResizeSuccessful", "PersistentVolumeClaim FileSystemResizeSuccessful",
		}, told.take())
		time.Sleep(time.Hour)
		require.Equal(t, 2, a.shared.Count("Expand"), fmt.Sprint(r.heard()))
		require.NoError(t, a.Prepare(t.Context(), pod))
	})
}

// A volume that has its size is expanded by nobody.
func TestResizesOfNewMounts(t *testing.T) {
	r := &resizes{size: 8}
	inAgent(t, func(a *agent) {
		a.cfg.Resizes = r
		a.cfg.Claims = claims{"x": func(pv *v1.PersistentVolume) {
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("8")}
		}}
	}, func(t *testing.T, a *agent) {
		require.NoError(t, a.Prepare(t.Context(), newPod("u1", "disk=x")))
		require.NoError(t, a.Release(t.Context(), "u1"))
		synctest.Wait()
		require.Zero(t, a.shared.Count("Expand"))
	})
}
