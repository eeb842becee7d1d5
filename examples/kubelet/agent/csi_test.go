package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/apiserver/csinodes"
	"github.com/podwright/podwright/examples/kubelet/csi/csitest"
	"github.com/podwright/podwright/examples/kubelet/server"
	volumecsi "github.com/podwright/podwright/volume/csi"
)

const withCSI = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostNetwork: true,
  volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: key}}}],
  containers: [{name: c, image: busybox, volumeMounts: [{name: v, mountPath: /v}]}]}}`

const described = "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, spec: {volumeLifecycleModes: [Ephemeral]}}"

// registering makes a short path for the folder of driver sockets, because the length of
// socket paths is limited.
func (n *podsNode) registering(t *testing.T) *csitest.Driver {
	short, err := os.MkdirTemp("", "csi")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(short)) })
	n.cfg.Flags.RootDir = filepath.Join(short, "root")
	registry := folders{root: n.cfg.Flags.RootDir}.plugins()
	require.NoError(t, os.MkdirAll(registry, 0o750))
	d := &csitest.Driver{Name: "d", Registry: registry, Socket: filepath.Join(short, "d.sock")}
	t.Cleanup(d.Stop)
	return d
}

// A pod waits for its driver, the CSIDriver object and its secret, and runs once all exist. The
// next agent, without the pod and without objects, reports the leftover volume until the driver is
// back, and then unmounts it.
func TestCSI(t *testing.T) {
	if os.Getuid() != 0 {
		require.NotEqual(t, "1", os.Getenv("PODWRIGHT_REQUIRE_CRI"), "needs root")
		t.Skip("the driver mounts: needs root")
	}
	n := newPodsNode(t, fake.Config{})
	d := n.registering(t)
	n.cfg.Flags.ObjectsDir = filepath.Join(n.dir, "objects")
	file := n.put(t, withCSI)
	var uid string
	n.during(t, func(a *Agent) {
		waits := func(why string) {
			t.Helper()
			soon(t, func() bool {
				v, ok := only(a.Report())
				uid = v.pod.UID
				return ok && !v.Ready && v.Plugin == volumecsi.Name && strings.Contains(v.LastError, why)
			})
		}
		waits(`driver "d" is not registered on this node`)
		require.NoError(t, d.Start())
		waits("the CSIDriver object of d does not list the mode Ephemeral")
		put(t, n.cfg.Flags.ObjectsDir, "csidrivers/d.yaml", described)
		waits(`secret "default/key" not found`)
		put(t, n.cfg.Flags.ObjectsDir, "secrets/default/key.yaml", "{apiVersion: v1, kind: Secret, stringData: {k: open sesame}}")
		soon(t, func() bool { return runs(a) })
	})
	volume := filepath.Join(n.cfg.Flags.RootDir, "pods", uid, "volumes/kubernetes.io~csi/v")
	text, err := os.ReadFile(filepath.Join(volume, "mount/k"))
	require.NoError(t, err)
	require.Equal(t, "open sesame", string(text))

	n.cfg.Flags.ObjectsDir = ""
	require.NoError(t, os.Remove(file))
	d.Stop()
	n.during(t, func(a *Agent) {
		soon(t, func() bool {
			v, ok := only(a.Report())
			return ok && v.pod.UID == uid && strings.Contains(v.LastError, `driver "d" is not registered on this node`)
		})
		require.DirExists(t, volume)
		require.NoError(t, d.Start())
		n.leavesNothing(t)
		soon(t, func() bool { return len(a.Report().Pods) == 0 })
	})
}

type volumeAndPod struct {
	server.VolumeReport
	pod server.PodReport
}

func only(r server.Report) (v volumeAndPod, ok bool) {
	if len(r.Pods) != 1 || len(r.Pods[0].Volumes) != 1 {
		return v, false
	}
	return volumeAndPod{r.Pods[0].Volumes[0], r.Pods[0]}, true
}

// The API server has a driver's data about the node while the driver is registered. The entry
// survives a stop of the agent.
func TestCSIDriversAtTheAPIServer(t *testing.T) {
	n, api := newPodsNode(t, fake.Config{}), apitest.Start(t)
	d := n.registering(t)
	n.cfg.Flags.Kubeconfig, n.cfg.DialAPI = api.Kubeconfig, api.Dial
	n.cfg.Flags.NodeIP = hostIPs(t)
	name := n.cfg.Flags.NodeName
	drivers := func() (names []string) {
		at, _ := apitest.Find(api, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}})
		for _, d := range at.Spec.Drivers {
			names = append(names, d.Name+" "+d.NodeID+" "+strings.Join(d.TopologyKeys, ","))
		}
		return names
	}
	there := func() bool { return slices.Equal(drivers(), []string{"d id-of-d zone"}) }
	n.during(t, func(a *Agent) {
		soon(t, func() bool { return len(apitest.All[*storagev1.CSINode](api)) == 1 })
		require.NoError(t, d.Start())
		soon(t, there)
		node, ok := apitest.Find(api, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		require.True(t, ok)
		require.Equal(t, `{"d":"id-of-d"}`, node.Annotations[csinodes.Annotation])
		require.Equal(t, "a", node.Labels["zone"])
		d.Stop()
		soon(t, func() bool { return len(drivers()) == 0 })
		require.NoError(t, d.Start())
		soon(t, there)
	})
	require.True(t, there(), "the driver stays")
}
