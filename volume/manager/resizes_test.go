package manager_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/volume"
)

type resizes struct {
	answer atomic.Pointer[resize]
	ended  journal
}

type resize struct {
	size   int64
	expand bool
	err    error
}

func (r *resizes) BeginResize(context.Context, *volume.Spec) (int64, bool, error) {
	a := r.answer.Load()
	return a.size, a.expand, a.err
}

func (r *resizes) EndResize(_ context.Context, _ *volume.Spec, err error) error {
	r.ended.add(err)
	return r.answer.Load().err
}

// A volume is expanded when its claim permits it. Until then it is used as it is, and no event
// is recorded.
func TestResizes(t *testing.T) {
	r := &resizes{}
	var fails atomic.Bool
	var events journal
	inAgent(t, func(a *agent) {
		a.cfg.Resizes = r
		a.cfg.Event = func(ref v1.ObjectReference, _, reason, _ string) { events.add(ref.Kind, " ", reason) }
		a.cfg.Claims = claims{"x": func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "x"}
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("8")}
		}}
		a.shared.Fault = in("Expand", failing(&fails))
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "disk=x")
		r.answer.Store(&resize{0, false, errBoom})
		require.ErrorIs(t, a.Prepare(t.Context(), pod), errBoom, "the size is unknown")
		r.answer.Store(&resize{4, false, nil})
		time.Sleep(time.Second)
		require.NoError(t, a.Prepare(t.Context(), pod))
		time.Sleep(time.Hour)
		require.Zero(t, a.shared.Count("Expand"))
		require.Empty(t, events.take())

		fails.Store(true)
		r.answer.Store(&resize{4, true, nil})
		time.Sleep(3 * time.Minute)
		fails.Store(false)
		time.Sleep(3 * time.Minute)
		require.Equal(t, 2, a.shared.Count("Expand"))
		require.Equal(t, []string{"boom", "<nil>"}, r.ended.take())
		require.Equal(t, []string{
			"Pod VolumeResizeFailed", "PersistentVolumeClaim VolumeResizeFailed",
			"Pod FileSystemResizeSuccessful", "PersistentVolumeClaim FileSystemResizeSuccessful",
		}, events.take())
		time.Sleep(time.Hour)
		require.Equal(t, 2, a.shared.Count("Expand"))
		require.NoError(t, a.Prepare(t.Context(), pod))

		require.NoError(t, a.Release(t.Context(), pod.UID))
		r.answer.Store(&resize{8, false, nil})
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Equal(t, 2, a.shared.Count("Expand"), "no expansion is needed")
	})
}
