package csi_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/objects"
)

var files = v1.PersistentVolumeFilesystem

func (w *fixture) fail(method string, err error) {
	w.fake.fault = func(_ context.Context, m string) error {
		if m == method {
			return err
		}
		return nil
	}
}

func read(t testing.TB, path string) map[string]any {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	out := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// TestLayout checks the paths that upstream kubelets share.
func TestLayout(t *testing.T) {
	w := newFixture(t)
	m := w.args(persistent(files), "1")
	got := w.mounted(m)
	require.Equal(t, volume.Mounted{Path: m.Dir + "/mount"}, got)
	stage := w.layout.Root + fmt.Sprintf("/plugins/kubernetes.io/csi/example.com/%x", sha256.Sum256([]byte("h/1")))
	for _, file := range []string{m.Dir + "/vol_data.json", stage + "/vol_data.json"} {
		written := read(t, file)
		require.Len(t, written["attachmentID"], 4+64)
		delete(written, "attachmentID")
		require.Equal(t, map[string]any{
			"specVolID": "pv", "volumeHandle": "h/1", "driverName": driver, "nodeName": "node",
			"volumeLifecycleMode": "Persistent", "seLinuxMountContext": "",
		}, written)
	}
	require.Equal(t, stage+"/globalmount", w.fake.publish.StagingPath)
	require.Equal(t, "example.com^h/1", w.VolumeID(m.Spec))
}

func TestDevice(t *testing.T) {
	w := newFixture(t)
	m := w.args(persistent(v1.PersistentVolumeBlock), "1")
	got := w.mounted(m)
	require.Equal(t, volume.Mounted{Device: m.Dir}, got)
	published := w.layout.Plugin(csi.Name) + "/volumeDevices/publish/pv/1"
	for _, link := range []string{m.Dir, w.layout.Plugin(csi.Name) + "/volumeDevices/pv/dev/1"} {
		to, err := os.Readlink(link)
		require.NoError(t, err)
		require.Equal(t, published, to)
	}
	require.Equal(t, w.layout.Plugin(csi.Name)+"/volumeDevices/staging/pv", w.fake.stage.StagingPath)
	require.True(t, w.fake.publish.Capability.Block)
	require.NoError(t, w.unmount(m))
	require.NoError(t, w.Unstage(t.Context(), w.VolumeID(m.Spec)))
	require.Empty(t, tree(t, w.layout.Root))
}

// An upstream kubelet that is killed during an unmount of a device has removed the pod's link
// first. Unstage unpublishes the device before it unstages it.
func TestDeviceWithoutLink(t *testing.T) {
	w := newFixture(t)
	m := w.args(persistent(v1.PersistentVolumeBlock), "1")
	w.mounted(m)
	require.NoError(t, os.Remove(m.Dir))
	w.restart()
	require.NoError(t, w.Unstage(t.Context(), w.VolumeID(m.Spec)))
	require.Equal(t, 1, w.fake.count("Unpublish"))
	require.Empty(t, tree(t, w.layout.Root))
}

// V20: after a call that may have taken effect, vol_data.json stays for Unmount, also for that
// of the next agent.
func TestV20Uncertain(t *testing.T) {
	w := newFixture(t)
	w.fail("Publish", context.DeadlineExceeded)
	m := w.args(persistent(files), "1")
	_, err := w.mount(m)
	require.ErrorIs(t, err, volume.ErrUncertain)
	w.restart()
	require.NoError(t, w.unmount(m))
	require.Equal(t, 1, w.fake.count("Unpublish"))
	require.NoDirExists(t, m.Dir)
}

// V21: a call without effect leaves no files, unless the volume existed before.
func TestV21Final(t *testing.T) {
	w := newFixture(t)
	w.fail("Publish", csi.Final(errors.New("bad")))
	m := w.args(persistent(files), "1")
	_, err := w.mount(m)
	require.Error(t, err)
	require.NotErrorIs(t, err, volume.ErrUncertain)
	require.NotErrorIs(t, err, volume.ErrTransient)
	require.NoDirExists(t, m.Dir)

	yes, republish := true, both
	republish.RequiresRepublish = &yes
	w.cfg.CSIDrivers, w.fake.fault = republish, nil
	w.restart()
	w.mounted(m)
	w.fail("Publish", csi.Final(errors.New("bad")))
	for _, before := range []func(*volume.Mount){
		func(m *volume.Mount) { m.Again = true }, func(m *volume.Mount) { m.Found = true },
	} {
		m := m
		before(&m)
		_, err = w.mount(m)
		require.Error(t, err)
		require.FileExists(t, m.Dir+"/vol_data.json")
		require.DirExists(t, m.Dir+"/mount")
	}
}

// V22: a driver without the stage capability is not called to stage or unstage.
func TestV22NoStage(t *testing.T) {
	w := newFixture(t)
	w.fake.can = csi.Capabilities{}
	m := w.args(persistent(files), "1")
	w.mounted(m)
	require.Empty(t, w.fake.publish.StagingPath)
	require.NoError(t, w.unmount(m))
	require.NoError(t, w.Unstage(t.Context(), w.VolumeID(m.Spec)))
	require.Zero(t, w.fake.count("Stage")+w.fake.count("Unstage"))
	require.Empty(t, tree(t, w.layout.Root))
}

// V24: only drivers with podInfoOnMount receive the pod's name and UID.
func TestV24PodInfo(t *testing.T) {
	yes, podInfo := true, both
	podInfo.PodInfoOnMount = &yes
	for _, c := range []struct {
		spec *volume.Spec
		eph  string
	}{{persistent(files), "false"}, {inline(), "true"}} {
		w := newFixture(t)
		w.mounted(w.args(c.spec, "1"))
		require.Equal(t, map[string]string{"a": "b"}, w.fake.publish.Attrs)
		w = newFixture(t, func(cfg *csi.Config) { cfg.CSIDrivers = podInfo })
		w.mounted(w.args(c.spec, "1"))
		require.Equal(t, map[string]string{
			"a": "b", "csi.storage.k8s.io/pod.name": "p", "csi.storage.k8s.io/pod.namespace": "ns",
			"csi.storage.k8s.io/pod.uid": "1", "csi.storage.k8s.io/serviceAccount.name": "robot",
			"csi.storage.k8s.io/ephemeral": c.eph,
		}, w.fake.publish.Attrs)
	}
}

type tokens struct{ at time.Time }

func (k tokens) Token(_ context.Context, r objects.TokenRequest) (objects.Token, error) {
	return objects.Token{Value: r.ServiceAccount + "@" + r.Audiences[0], Expires: k.at, RefreshAt: k.at}, nil
}

func TestTokens(t *testing.T) {
	yes, ask, at := true, both, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	ask.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
	const want = `{"vault":{"token":"robot@vault","expirationTimestamp":"2030-01-01T00:00:00Z"}}`
	const key = "csi.storage.k8s.io/serviceAccount.tokens"
	w := newFixture(t, func(cfg *csi.Config) { cfg.CSIDrivers, cfg.Tokens = ask, tokens{at} })
	got := w.mounted(w.args(inline(), "1"))
	require.Zero(t, got.RefreshAt)
	require.False(t, w.Remounts(inline()))
	require.JSONEq(t, want, w.fake.publish.Attrs[key])

	ask.ServiceAccountTokenInSecrets, ask.RequiresRepublish = &yes, &yes
	w = newFixture(t, func(cfg *csi.Config) { cfg.CSIDrivers, cfg.Tokens = ask, tokens{at} })
	got = w.mounted(w.args(inline(), "1"))
	require.Equal(t, at, got.RefreshAt)
	require.True(t, w.Remounts(inline()))
	require.JSONEq(t, want, w.fake.publish.Secrets[key])
	require.NotContains(t, w.fake.publish.Attrs, key)

	w = newFixture(t, func(cfg *csi.Config) { cfg.CSIDrivers = ask })
	_, err := w.mount(w.args(inline(), "1"))
	require.ErrorIs(t, err, volume.ErrTransient)
}

// A missing driver, object or secret is a transient error that contains its name.
func TestTransient(t *testing.T) {
	ref := persistent(files)
	ref.Persistent.Spec.CSI.NodePublishSecretRef = &v1.SecretReference{Namespace: "ns", Name: "key"}
	for want, c := range map[string]struct {
		spec   *volume.Spec
		change func(*csi.Config)
	}{
		`driver "example.com" is not registered`: {inline(), func(c *csi.Config) { c.Drivers = drivers{} }},
		"does not list the mode Ephemeral":       {inline(), func(c *csi.Config) { c.CSIDrivers = nil }},
		"secret ns/key":                          {ref, func(*csi.Config) {}},
	} {
		w := newFixture(t, c.change)
		m := w.args(c.spec, "1")
		_, err := w.mount(m)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, volume.ErrTransient)
		require.NoDirExists(t, m.Dir)
	}
}

func TestAccessModes(t *testing.T) {
	for _, c := range []struct {
		mode v1.PersistentVolumeAccessMode
		many bool
		want string
	}{
		{v1.ReadWriteOnce, false, "SINGLE_NODE_WRITER"},
		{v1.ReadWriteOnce, true, "SINGLE_NODE_MULTI_WRITER"},
		{v1.ReadWriteOncePod, false, "SINGLE_NODE_WRITER"},
		{v1.ReadWriteOncePod, true, "SINGLE_NODE_SINGLE_WRITER"},
		{v1.ReadOnlyMany, true, "MULTI_NODE_READER_ONLY"},
		{v1.ReadWriteMany, true, "MULTI_NODE_MULTI_WRITER"},
	} {
		w := newFixture(t)
		w.fake.can.MultiWriter = c.many
		spec := persistent(files)
		spec.Persistent.Spec.AccessModes = []v1.PersistentVolumeAccessMode{c.mode}
		w.mounted(w.args(spec, "1"))
		require.Equal(t, c.want, w.fake.publish.Capability.AccessMode)
		require.Equal(t, c.want, w.fake.stage.Capability.AccessMode)
	}
}

// A driver with the capability sets the pod's group on the files. For other drivers the agent
// does so, if the driver's policy permits it.
func TestFSGroup(t *testing.T) {
	none, file := storagev1.NoneFSGroupPolicy, storagev1.FileFSGroupPolicy
	for name, c := range map[string]struct {
		driver bool
		policy *storagev1.FSGroupPolicy
		fsType string
		want   bool
	}{
		"set by the driver":          {driver: true, policy: &file},
		"no file system type":        {},
		"a file system type":         {fsType: "ext4", want: true},
		"policy None":                {fsType: "ext4", policy: &none},
		"policy File without a type": {policy: &file, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			group, object := int64(os.Getgid()), both
			object.FSGroupPolicy = c.policy
			w := newFixture(t, func(cfg *csi.Config) { cfg.CSIDrivers = object })
			w.fake.can.MountGroup = c.driver
			m := w.args(persistent(files), "1")
			m.Spec.Persistent.Spec.CSI.FSType = c.fsType
			m.FSGroup = &group
			got := w.mounted(m)
			require.Equal(t, c.driver, w.fake.publish.Capability.MountGroup != "")
			require.Equal(t, c.driver, w.fake.stage.Capability.MountGroup != "")
			info, err := os.Stat(got.Path)
			require.NoError(t, err)
			require.Equal(t, c.want, info.Mode()&os.ModeSetgid != 0)
		})
	}
}

// V19: a volume with an invalid vol_data.json gets the id of the volume that is staged for its
// PersistentVolume. Unmount unmounts the path once, without the driver.
func TestV19Unreadable(t *testing.T) {
	memory := &mounts.Memory{}
	w := newFixture(t, func(cfg *csi.Config) { cfg.Mounts = memory })
	m := w.args(persistent(files), "1")
	w.mounted(m)
	require.NoError(t, memory.Mount(t.Context(), mounts.Mount{Source: "tmpfs", FSType: "tmpfs", Target: m.Dir + "/mount"}))
	require.NoError(t, os.WriteFile(m.Dir+"/vol_data.json", []byte("{"), 0o600))
	w.restart()
	for dir, want := range map[string]string{m.Dir: "example.com^h/1", parent(m.Dir) + "/other": ""} {
		id, err := w.VolumeIDOf(dir)
		require.NoError(t, err)
		require.Equal(t, want, id)
	}
	ids, err := w.Staged(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"example.com^h/1"}, ids)
	require.NoError(t, w.unmount(m))
	require.NoDirExists(t, m.Dir)
	require.Equal(t, []string{"Mount " + m.Dir + "/mount", "Unmount " + m.Dir + "/mount"}, memory.Calls())
	require.Zero(t, w.fake.count("Unpublish"))
}

// The vol_data.json of volumes that other kubelets staged does not contain the
// PersistentVolume.
func TestV19StagedByOthers(t *testing.T) {
	w := newFixture(t)
	m := w.args(persistent(files), "1")
	w.mounted(m)
	staged := parent(w.fake.stage.StagingPath) + "/vol_data.json"
	require.NoError(t, os.WriteFile(staged, []byte(`{"driverName": "example.com", "volumeHandle": "h/1"}`), 0o600))
	require.NoError(t, os.WriteFile(m.Dir+"/vol_data.json", []byte("{"), 0o600))
	_, err := w.VolumeIDOf(m.Dir)
	require.ErrorContains(t, err, m.Dir+"/vol_data.json")
	ids, err := w.Staged(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"example.com^h/1"}, ids)
}

// Staged returns an error for a folder that cannot be listed, beside the ids that it can read.
func TestStagedReturnsPartialResult(t *testing.T) {
	w := newFixture(t)
	w.mounted(w.args(persistent(files), "1"))
	require.NoError(t, os.WriteFile(w.layout.Plugin(csi.Name)+"/a.file", nil, 0o600))
	ids, err := w.Staged(t.Context())
	require.ErrorContains(t, err, "a.file")
	require.Equal(t, []string{"example.com^h/1"}, ids)
}

// OnCall is called for each call, also for failed ones.
func TestMetrics(t *testing.T) {
	var mu sync.Mutex
	var calls []csi.Call
	w := newFixture(t, func(cfg *csi.Config) {
		cfg.Metrics.OnCall = func(c csi.Call) {
			mu.Lock()
			defer mu.Unlock()
			require.GreaterOrEqual(t, c.Took, time.Duration(0))
			c.Took = 0
			calls = append(calls, c)
		}
	})
	bad := csi.Final(errors.New("bad"))
	w.fail("Publish", bad)
	_, err := w.mount(w.args(persistent(files), "1"))
	require.Error(t, err)
	require.Equal(t, []csi.Call{
		{Driver: driver, Method: "NodeGetCapabilities"}, {Driver: driver, Method: "NodeStageVolume"},
		{Driver: driver, Method: "NodeGetCapabilities"}, {Driver: driver, Method: "NodePublishVolume", Err: bad},
	}, calls)
}

// A driver's success is checked: missing results are errors, and content of the driver's folder
// is never deleted.
func TestResultsOfDriverAreChecked(t *testing.T) {
	w := newFixture(t, func(cfg *csi.Config) { cfg.Drivers = noEffectDrivers{} })
	m := w.args(inline(), "1")
	_, err := w.mount(m)
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.ErrorContains(t, err, m.Dir+"/mount does not exist")
	require.NoError(t, os.MkdirAll(m.Dir+"/mount/precious", 0o750))
	require.ErrorContains(t, w.unmount(m), "driver example.com unpublished the volume, but its folders remain")
	require.DirExists(t, m.Dir+"/mount/precious")
	require.FileExists(t, m.Dir+"/vol_data.json")
}

type noEffectDrivers struct{}

func (noEffectDrivers) Driver(string) csi.Driver { return &noEffectDriver{} }

type noEffectDriver struct{ fake }

func (*noEffectDriver) Publish(context.Context, csi.PublishRequest) error { return nil }
func (*noEffectDriver) Unpublish(context.Context, string, string) error   { return nil }

func TestExpand(t *testing.T) {
	w := newFixture(t)
	w.fake.can.Expand = true
	m := w.args(persistent(files), "1")
	m.Spec.Persistent.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	w.mounted(m)
	size, err := w.Expand(t.Context(), m.Spec, w.fake.stage.StagingPath, m.Dir)
	require.NoError(t, err)
	require.EqualValues(t, 1<<30, size)
	require.Equal(t, m.Dir+"/mount", w.fake.expand.VolumePath)
	require.EqualValues(t, 1<<30, w.fake.expand.Size)
}

// A driver's name cannot lead out of the agent's folder.
func TestBadNames(t *testing.T) {
	w := newFixture(t)
	for _, name := range []string{"", "..", "../..", "a/b", "volumeDevices", "a^b"} {
		spec := inline()
		spec.Inline.CSI.Driver = name
		_, err := w.mount(w.args(spec, "1"))
		var field *volume.FieldError
		require.ErrorAs(t, err, &field)
		require.Equal(t, "csi.driver", field.Path)
	}
}

func TestConfig(t *testing.T) {
	good := csi.Config{Layout: volume.Layout{Root: "/r"}, NodeName: "n", Drivers: drivers{}}
	_, err := csi.New(good)
	require.NoError(t, err)
	for want, change := range map[string]func(*csi.Config){
		"Config.Layout.Root is required": func(c *csi.Config) { c.Layout.Root = "" },
		"is not absolute":                func(c *csi.Config) { c.Layout.Root = "r" },
		"Config.NodeName is required":    func(c *csi.Config) { c.NodeName = "" },
		"Config.Drivers is required":     func(c *csi.Config) { c.Drivers = nil },
		"CallTimeout is negative":        func(c *csi.Config) { c.CallTimeout = -1 },
	} {
		bad := good
		change(&bad)
		_, err := csi.New(bad)
		require.ErrorContains(t, err, want)
	}
}

func ExampleNew() {
	plugin, err := csi.New(csi.Config{
		Layout:   volume.Layout{Root: "/var/lib/kubelet"},
		NodeName: "node-1",
		Drivers:  drivers{}, // examples/kubelet/csi finds drivers that register themselves
	})
	if err != nil {
		panic(err)
	}
	_ = plugin // an entry of manager.Config.Plugins
	// Output:
}
