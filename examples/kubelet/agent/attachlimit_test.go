package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/volume"
	volumecsi "github.com/podwright/podwright/volume/csi"
)

// A pod is rejected if its volume cannot be attached because the node has as many as it can
// have, and its driver is one that says how many these are.
func TestAttachLimit(t *testing.T) {
	exhausted, internal, period := int32(codes.ResourceExhausted), int32(codes.Internal), int64(30)
	for name, c := range map[string]struct {
		period *int64
		failed *storagev1.VolumeError
		want   bool
	}{
		"exhausted":              {&period, &storagev1.VolumeError{Message: "3 are too many", ErrorCode: &exhausted}, true},
		"a driver without count": {nil, &storagev1.VolumeError{Message: "3 are too many", ErrorCode: &exhausted}, false},
		"another error":          {&period, &storagev1.VolumeError{ErrorCode: &internal}, false},
		"an error without code":  {&period, &storagev1.VolumeError{}, false},
		"no error":               {&period, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(w *world) {
				w.api.Put(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: c.period}})
				w.api.Put(&storagev1.VolumeAttachment{
					ObjectMeta: metav1.ObjectMeta{Name: volumecsi.AttachmentName("d", "h", "n")},
					Status:     storagev1.VolumeAttachmentStatus{AttachError: c.failed},
				})
				w.start()
				w.sleep(3 * time.Second)
				spec := &volume.Spec{Name: "pv", Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
					PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
				}}}
				_ = w.agent.cluster.notAttached(w.t.Context(), spec, "n") // the first to ask for drivers
				w.sleep(time.Second)
				err := w.agent.cluster.notAttached(w.t.Context(), spec, "n")
				if !c.want {
					require.ErrorIs(w.t, err, errNotAttached)
					return
				}
				var why *syncloop.Rejection
				require.ErrorAs(w.t, err, &why)
				require.Equal(w.t, "VolumeAttachmentLimitExceeded", why.Reason)
				require.Equal(w.t, "volume pv cannot be attached: 3 are too many", why.Message)
			})
		})
	}
}
