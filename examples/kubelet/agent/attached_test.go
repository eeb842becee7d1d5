package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/volume"
)

// A volume is used once the Node says that it is in use, and that it is attached; what a
// copy of the Node says is made sure of.
func TestAttached(t *testing.T) {
	inCluster(t, func(w *world) {
		w.start()
		w.sleep(3 * time.Second)
		id := volume.ID{Plugin: "kubernetes.io/csi", Volume: "driver^handle"}
		ask := func() (string, error) {
			return attachments{w.agent.cluster}.Attached(w.t.Context(), id, nil)
		}
		set := func(change func(*v1.NodeStatus)) {
			n, _ := apitest.Find(w.api, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			change(&n.Status)
			w.api.Put(n)
			w.sleep(0)
		}
		_, err := ask()
		require.ErrorIs(t, err, errNotReported)
		w.sleep(1500 * time.Millisecond) // the agent writes what it has in use, since it was asked
		set(func(s *v1.NodeStatus) { s.VolumesInUse = []v1.UniqueVolumeName{v1.UniqueVolumeName(id.String())} })
		_, err = ask()
		require.ErrorIs(t, err, errNotAttached)
		set(func(s *v1.NodeStatus) {
			s.VolumesInUse = []v1.UniqueVolumeName{v1.UniqueVolumeName(id.String())}
			s.VolumesAttached = []v1.AttachedVolume{{Name: v1.UniqueVolumeName(id.String()), DevicePath: "/dev/x"}}
		})
		device, err := ask()
		require.NoError(t, err)
		require.Equal(t, "/dev/x", device)
		w.api.SetDown(true)
		_, err = ask()
		require.ErrorContains(t, err, "is it attached?")
	})
}
