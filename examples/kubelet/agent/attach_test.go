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

// A volume is used once the Node reports it as in use and as attached. The agent verifies the
// watched copy of the Node at the server.
func TestAttached(t *testing.T) {
	inCluster(t, func(w *world) {
		w.startFor(3 * time.Second)
		id := volume.ID{Plugin: "kubernetes.io/csi", Volume: "driver^handle"}
		name := v1.UniqueVolumeName(id.String())
		ask := func() (string, error) {
			return attachments{w.agent.in.cluster}.Attached(w.t.Context(), id, nil)
		}
		_, err := ask()
		require.ErrorIs(t, err, errNotReported)
		// The agent writes the volumes in use, because the call woke the writer.
		w.Sleep(1500 * time.Millisecond)
		w.editNode(func(n *v1.Node) { n.Status.VolumesInUse = []v1.UniqueVolumeName{name} })
		_, err = ask()
		require.ErrorIs(t, err, errNotAttached)
		w.editNode(func(n *v1.Node) {
			n.Status.VolumesInUse = []v1.UniqueVolumeName{name}
			n.Status.VolumesAttached = []v1.AttachedVolume{{Name: name, DevicePath: "/dev/x"}}
		})
		device, err := ask()
		require.NoError(t, err)
		require.Equal(t, "/dev/x", device)
		w.api.SetDown(true)
		_, err = ask()
		require.ErrorContains(t, err, "reading status.volumesAttached of the Node: ")
	})
}

// A pod is rejected if its volume exceeds the attach limit of a driver that updates the limit
// periodically.
func TestAttachLimit(t *testing.T) {
	exhausted, internal, period := int32(codes.ResourceExhausted), int32(codes.Internal), int64(30)
	drivers := map[string]struct {
		period *int64
		failed *storagev1.VolumeError
	}{
		"exhausted":     {&period, &storagev1.VolumeError{Message: "3 are too many", ErrorCode: &exhausted}},
		"without-count": {nil, &storagev1.VolumeError{Message: "3 are too many", ErrorCode: &exhausted}},
		"another-error": {&period, &storagev1.VolumeError{ErrorCode: &internal}},
		"without-code":  {&period, &storagev1.VolumeError{}},
		"no-error":      {&period, nil},
	}
	inCluster(t, func(w *world) {
		for name, c := range drivers {
			w.api.Put(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: c.period}})
			w.api.Put(&storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: volumecsi.AttachmentName(name, "h", "n")},
				Status:     storagev1.VolumeAttachmentStatus{AttachError: c.failed},
			})
		}
		w.startFor(3 * time.Second)
		attach := func(driver string) error {
			return w.agent.in.cluster.notAttached(w.t.Context(), &volume.Spec{Name: "pv", Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
				PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}},
			}}}, "n")
		}
		_ = attach("exhausted") // the first read of CSIDrivers
		w.Sleep(time.Second)
		for name := range drivers {
			err := attach(name)
			if name != "exhausted" {
				require.ErrorIs(w.t, err, errNotAttached, name)
				continue
			}
			var why *syncloop.Rejection
			require.ErrorAs(w.t, err, &why)
			require.Equal(w.t, "VolumeAttachmentLimitExceeded", why.Reason)
			require.Equal(w.t, "volume pv cannot be attached: 3 are too many", why.Message)
		}
	})
}
