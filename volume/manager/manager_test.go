package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/manager"
	"github.com/podwright/podwright/volume/volumetest"
)

var errBoom = errors.New("boom")

type agent struct {
	*manager.Manager
	t      testing.TB
	cfg    manager.Config
	plugin *volumetest.Plugin
	shared *volumetest.Shared
	end    func() error
}

// newAgent returns an agent with one plugin for inline volumes and one for claims. The claim
// "x" has the PersistentVolume "pv-x".
func newAgent(t testing.TB, change func(*agent)) *agent {
	root := t.TempDir()
	a := &agent{t: t, plugin: &volumetest.Plugin{Takes: func(s *volume.Spec) bool { return s.Inline != nil }}}
	a.shared = &volumetest.Shared{
		Plugin: &volumetest.Plugin{PluginName: "example.com/shared", Takes: func(s *volume.Spec) bool { return s.Persistent != nil }},
		Root:   filepath.Join(root, "plugins", "shared"),
	}
	a.cfg = manager.Config{
		Plugins:  []volume.Plugin{a.plugin, a.shared},
		Layout:   volume.Layout{Root: root},
		Claims:   claims{},
		Complete: func() bool { return true },
	}
	if change != nil {
		change(a)
	}
	a.start()
	t.Cleanup(func() { _ = a.end() })
	return a
}

func inAgent(t *testing.T, change func(*agent), test func(t *testing.T, a *agent)) {
	synctest.Test(t, func(t *testing.T) { test(t, newAgent(t, change)) })
}

func (a *agent) start() {
	m, err := manager.New(a.cfg)
	require.NoError(a.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	a.Manager = m
	a.end = sync.OnceValue(func() error { cancel(); return <-done })
}

// restart ends the agent and starts the next one on the same disk.
func (a *agent) restart() {
	_ = a.end()
	a.start()
}

func (a *agent) dir(pod *v1.Pod, plugin volume.Plugin, name string) string {
	return a.cfg.Layout.Volume(pod.UID, plugin.Name(), name)
}

type journal struct {
	mu    sync.Mutex
	texts []string
}

func (j *journal) add(text ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.texts = append(j.texts, fmt.Sprint(text...))
}

// take returns the texts since the last take, after all goroutines of the bubble are blocked.
func (j *journal) take() (out []string) {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	out, j.texts = j.texts, nil
	return out
}

func in(method string, fault func(context.Context, volumetest.Call) error) func(context.Context, volumetest.Call) error {
	return func(ctx context.Context, c volumetest.Call) error {
		if c.Method != method {
			return nil
		}
		return fault(ctx, c)
	}
}

// failing returns a fault that fails while fails is true.
func failing(fails *atomic.Bool) func(context.Context, volumetest.Call) error {
	return func(context.Context, volumetest.Call) error {
		if fails.Load() {
			return errBoom
		}
		return nil
	}
}

// hangs is a fault that blocks until the context ends.
func hangs(ctx context.Context, _ volumetest.Call) error {
	<-ctx.Done()
	return ctx.Err()
}

// claims resolves each claim to a PersistentVolume of its name.
type claims map[string]func(*v1.PersistentVolume)

func (c claims) Resolve(_ context.Context, _ *v1.Pod, v v1.Volume) (*volume.Spec, error) {
	name := v.PersistentVolumeClaim.ClaimName
	if name == "none" {
		return nil, fmt.Errorf("claim %s: %w", name, volume.ErrNotFound)
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}}
	if name == "raw" {
		block := v1.PersistentVolumeBlock
		pv.Spec.VolumeMode = &block
	}
	if change := c[name]; change != nil {
		change(pv)
	}
	return &volume.Spec{Name: pv.Name, Persistent: pv, ReadOnly: v.PersistentVolumeClaim.ReadOnly}, nil
}

// newPod returns a pod with a container that uses volumes: "data" is an emptyDir, "data=x" the
// claim x, which is a device if it is "raw".
func newPod(uid string, volumes ...string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
	}
	for _, v := range volumes {
		name, claim, isClaim := strings.Cut(v, "=")
		source := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
		if isClaim {
			source = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
		c := &pod.Spec.Containers[0]
		if claim == "raw" {
			c.VolumeDevices = append(c.VolumeDevices, v1.VolumeDevice{Name: name, DevicePath: "/dev/" + name})
		} else {
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
		}
	}
	return pod
}

func (a *agent) requireRemoved(pod *v1.Pod) {
	a.t.Helper()
	for _, dir := range []string{a.cfg.Layout.Volumes(pod.UID), a.cfg.Layout.Devices(pod.UID), a.cfg.Layout.SubPaths(pod.UID)} {
		require.NoDirExists(a.t, dir)
	}
	require.Nil(a.t, a.Volumes(pod.UID))
	left, err := a.Leftovers(a.t.Context())
	require.NoError(a.t, err)
	require.NotContains(a.t, left, pod.UID)
}

func TestMountAndUnmount(t *testing.T) {
	inAgent(t, nil, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data", "disk=x")
		begun := time.Now()
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Zero(t, time.Since(begun), "Prepare does not sleep")

		data, err := a.Volume(t.Context(), pod, "data")
		require.NoError(t, err)
		require.Equal(t, volume.Mounted{Path: a.dir(pod, a.plugin, "data")}, data)
		require.FileExists(t, filepath.Join(data.Path, "content"))
		disk, err := a.Volume(t.Context(), pod, "disk")
		require.NoError(t, err)
		require.Equal(t, a.dir(pod, a.shared, "pv-x"), disk.Path)
		_, err = a.Volume(t.Context(), newPod("u2", "data"), "data")
		require.ErrorIs(t, err, volume.ErrNotFound, "the volume belongs to another UID")
		_, err = a.Volume(t.Context(), pod, "none")
		require.ErrorIs(t, err, volume.ErrNotFound)
		left, err := a.Leftovers(t.Context())
		require.NoError(t, err)
		require.Equal(t, []types.UID{"u1"}, left)

		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Equal(t, 1, a.plugin.Count("Mount"), "mounted volumes stay unchanged")
		require.NoError(t, a.Release(t.Context(), pod.UID))
		a.requireRemoved(pod)
		synctest.Wait()
		require.Equal(t, 1, a.shared.Count("Unstage"))
		require.NoError(t, a.Release(t.Context(), pod.UID))
		require.NoError(t, a.end())
	})
}

// Leftovers does not read the folders of pods whose volumes are in memory.
func TestLeftoversOfPodsWithVolumes(t *testing.T) {
	inAgent(t, nil, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data")
		require.NoError(t, a.Prepare(t.Context(), pod))
		volumes, aside := a.cfg.Layout.Volumes(pod.UID), filepath.Join(t.TempDir(), "aside")
		require.NoError(t, os.Rename(volumes, aside))
		require.NoError(t, os.WriteFile(volumes, nil, 0o600)) // which makes the list fail
		left, err := a.Leftovers(t.Context())
		require.NoError(t, err)
		require.Equal(t, []types.UID{"u1"}, left)
		a.restart()
		left, err = a.Leftovers(t.Context())
		require.Error(t, err, "the folder of an unknown pod must be read")
		require.Equal(t, []types.UID{"u1"}, left)
		require.NoError(t, os.Remove(volumes))
		require.NoError(t, os.Rename(aside, volumes))
		require.NoError(t, a.Release(t.Context(), pod.UID))
		a.requireRemoved(pod)
	})
}

// V17: a restarted agent with a desired pod unmounts no volumes, even if its claims are
// unreadable.
func TestV17RestartUnmountsNothing(t *testing.T) {
	inAgent(t, nil, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data", "disk=x")
		require.NoError(t, a.Prepare(t.Context(), pod))
		a.cfg.Claims = resolver(func(context.Context, *v1.Pod, v1.Volume) (*volume.Spec, error) { return nil, errBoom })
		a.restart()
		require.ErrorIs(t, a.Prepare(t.Context(), pod), errBoom)
		time.Sleep(time.Hour)
		a.cfg.Claims = claims{}
		a.restart()
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Zero(t, a.plugin.Count("Unmount")+a.shared.Count("Unmount")+a.shared.Count("Unstage"))
		found := 0
		for _, c := range append(a.plugin.Calls(), a.shared.Calls()...) {
			if c.Found && c.Method == "Mount" {
				found++
			}
		}
		require.Equal(t, 2+1, found, "calls for emptyDir: 2, for disk: 1")
	})
}

// V18: volumes of a pod that no source names are unmounted when the pod is released, not
// earlier.
func TestV18RestartAndPodGone(t *testing.T) {
	inAgent(t, nil, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data", "disk=x")
		require.NoError(t, a.Prepare(t.Context(), pod))
		a.restart()
		time.Sleep(time.Hour)
		require.Len(t, a.Volumes(pod.UID), 2)
		require.Zero(t, a.plugin.Count("Unmount"))
		require.Zero(t, a.shared.Count("Unstage"), "a pod on the disk uses the volume")
		left, err := a.Leftovers(t.Context())
		require.NoError(t, err)
		require.Equal(t, []types.UID{"u1"}, left)
		require.NoError(t, a.Release(t.Context(), pod.UID))
		a.requireRemoved(pod)
		synctest.Wait()
		require.Equal(t, 1, a.shared.Count("Unstage"))
	})
}

// V19: a volume whose plugin returns no id is unmounted with its pod. No volume is unstaged
// before.
func TestV19UnreadableOwner(t *testing.T) {
	inAgent(t, nil, func(t *testing.T, a *agent) {
		pod := newPod("u1", "disk=x")
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.NoError(t, os.WriteFile(filepath.Join(a.dir(pod, a.shared, "pv-x"), "id"), []byte("{"), 0o600))
		a.restart()
		time.Sleep(time.Hour)
		require.Zero(t, a.shared.Count("Unstage"))
		require.NoError(t, a.Release(t.Context(), pod.UID))
		synctest.Wait()
		require.Equal(t, 1, a.shared.Count("Unmount"))
		require.Equal(t, 1, a.shared.Count("Unstage"))
		a.requireRemoved(pod)
	})
}

// V20: a mount with an uncertain outcome is unmounted with its pod. After a final failure there
// is no unmount.
func TestV20Uncertain(t *testing.T) {
	for _, test := range []struct {
		name     string
		err      error
		unmounts int
		state    manager.State
	}{
		{"uncertain", volume.Uncertain(errBoom), 1, manager.StateUncertain},
		{"transient", volume.Transient(errBoom), 0, manager.StateNotMounted},
		{"final", errBoom, 0, manager.StateNotMounted},
		{"panic", nil, 1, manager.StateUncertain},
	} {
		t.Run(test.name, func(t *testing.T) {
			inAgent(t, func(a *agent) {
				a.plugin.Fault = in("Mount", func(context.Context, volumetest.Call) error {
					if test.err == nil {
						panic(errBoom)
					}
					return test.err
				})
			}, func(t *testing.T, a *agent) {
				pod := newPod("u1", "data")
				require.ErrorIs(t, a.Prepare(t.Context(), pod), errBoom)
				require.Equal(t, test.state, a.Volumes(pod.UID)[0].State)
				require.NoError(t, a.Release(t.Context(), pod.UID))
				require.Equal(t, test.unmounts, a.plugin.Count("Unmount"))
				a.requireRemoved(pod)
			})
		})
	}
}

// Errors of a plugin contain the whole path of each field in the pod's spec.
func TestFaultsAreNamedByField(t *testing.T) {
	inAgent(t, func(a *agent) {
		at := func(i int) error { return volume.AtField(fmt.Sprintf("sources[%d].path", i), errBoom) }
		a.plugin.Fault = func(_ context.Context, c volumetest.Call) error {
			if c.Method != "Mount" || c.Volume != "bad" {
				return nil
			}
			return volume.Transient(volume.AtField("projected", run.Join(at(0), at(2))))
		}
	}, func(t *testing.T, a *agent) {
		err := a.Prepare(t.Context(), newPod("u1", "good", "bad"))
		require.ErrorIs(t, err, errBoom)
		require.ErrorContains(t, err, "last error: spec.volumes[1].projected.sources[0].path: boom\nspec.volumes[1].projected.sources[2].path: boom")
		require.Equal(t, manager.StateNotMounted, a.Volumes("u1")[1].State, "the failure is transient")
	})
}

// attachments reports all volumes as attached if yes is true.
type attachments struct{ yes atomic.Bool }

func (a *attachments) Attached(_ context.Context, id volume.ID, _ *volume.Spec) (string, error) {
	if !a.yes.Load() {
		return "", fmt.Errorf("%s is not in volumesAttached", id)
	}
	return "/dev/x", nil
}

// V25: Attached is called with back-off for a volume that is not attached, and at once after
// Wake. The error contains the volume.
func TestV25NotAttached(t *testing.T) {
	att := &attachments{}
	inAgent(t, func(a *agent) { a.cfg.Attachments, a.shared.Attach = att, true }, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data", "disk=x")
		err := a.Prepare(t.Context(), pod)
		var notReady *manager.NotReadyError
		require.ErrorAs(t, err, &notReady)
		require.Len(t, notReady.Volumes, 1)
		require.ErrorContains(t, err, "disk: NotMounted, waits for its attachment to the node, last error: not attached to the node: example.com/shared/handle-pv-x is not in volumesAttached")
		require.Equal(t, time.Now().Add(500*time.Millisecond), notReady.NotBefore())
		require.Equal(t, "FailedMount", notReady.EventReason())
		require.Equal(t, `MountVolume.WaitForAttach failed for volume "pv-x" : not attached to the node: example.com/shared/handle-pv-x is not in volumesAttached`, notReady.EventMessage())
		synctest.Wait() // until the staged volumes are listed
		names, known := a.InUse()
		require.True(t, known)
		require.Equal(t, []string{"example.com/shared/handle-pv-x"}, names)
		_, err = a.Volume(t.Context(), pod, "disk")
		require.ErrorContains(t, err, "attachment")
		_, err = a.Volume(t.Context(), pod, "data")
		require.NoError(t, err)

		time.Sleep(10 * time.Minute)
		att.yes.Store(true)
		a.Wake()
		begun := time.Now()
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Zero(t, time.Since(begun))
	})
}

// A volume of an earlier agent counts as in use until it is unstaged or certainly needs no
// attachment, because the controller detaches all other volumes.
func TestFoundVolumesAreInUse(t *testing.T) {
	complete := atomic.Bool{}
	complete.Store(true)
	inAgent(t, func(a *agent) { a.cfg.Complete = complete.Load }, func(t *testing.T, a *agent) {
		require.NoError(t, a.Prepare(t.Context(), newPod("u1", "disk=x")))
		synctest.Wait()
		names, known := a.InUse()
		require.True(t, known)
		require.Empty(t, names, "without Attachments no volume is attached")
		_ = a.end()
		complete.Store(false)
		a.cfg.Attachments, a.shared.Attach = &attachments{}, true
		a.start()
		synctest.Wait()
		names, known = a.InUse()
		require.True(t, known)
		require.Equal(t, []string{"example.com/shared/handle-pv-x"}, names)
		require.NoError(t, a.Release(t.Context(), "u1"))
		names, _ = a.InUse()
		require.Len(t, names, 1, "the volume is still staged")
		complete.Store(true)
		a.Wake()
		synctest.Wait()
		names, known = a.InUse()
		require.True(t, known)
		require.Empty(t, names)
	})
}

// V26: two names of one claim share a mount.
func TestV26TwoNamesOneClaim(t *testing.T) {
	inAgent(t, nil, func(t *testing.T, a *agent) {
		pod := newPod("u1", "one=x", "two=x")
		pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		other := newPod("u2", "three=x")
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.NoError(t, a.Prepare(t.Context(), other))
		one, err := a.Volume(t.Context(), pod, "one")
		require.NoError(t, err)
		two, err := a.Volume(t.Context(), pod, "two")
		require.NoError(t, err)
		require.Equal(t, one.Path, two.Path)
		require.True(t, one.ReadOnly)
		require.False(t, two.ReadOnly)
		require.Equal(t, 1, a.shared.Count("Stage"))
		require.Equal(t, 2, a.shared.Count("Mount"), "one Mount per pod")
		require.NoError(t, a.Release(t.Context(), pod.UID))
		synctest.Wait()
		require.Zero(t, a.shared.Count("Unstage"), "the other pod uses the volume")
		require.NoError(t, a.Release(t.Context(), other.UID))
		synctest.Wait()
		require.Equal(t, 1, a.shared.Count("Unstage"))
	})
}

// V27: a ReadWriteOncePod volume belongs to one pod until that pod has unmounted it.
func TestV27ReadWriteOncePod(t *testing.T) {
	var ready journal
	once := func(pv *v1.PersistentVolume) {
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	inAgent(t, func(a *agent) {
		a.cfg.Claims = claims{"x": once}
		a.cfg.OnReady = func(uid types.UID) { ready.add(uid) }
	}, func(t *testing.T, a *agent) {
		first, second := newPod("u1", "disk=x"), newPod("u2", "disk=x")
		require.NoError(t, a.Prepare(t.Context(), first))
		require.ErrorContains(t, a.Prepare(t.Context(), second), "waits for pod ns/pod-u1 (u1) to release the volume (ReadWriteOncePod)")
		a.restart() // the new agent finds it only on the disk
		require.ErrorContains(t, a.Prepare(t.Context(), second), "waits for pod u1 to release the volume")
		require.NoError(t, a.Release(t.Context(), first.UID))
		require.Equal(t, []string{"u2"}, ready.take(), "OnReady is called without a delay")
		require.NoError(t, a.Prepare(t.Context(), second))
	})
}

// V30: a pod with a blocked unmount is not released, and other pods are not delayed.
func TestV30UnmountHangs(t *testing.T) {
	var unblock chan struct{}
	inAgent(t, func(a *agent) {
		unblock = make(chan struct{})
		a.plugin.Fault = func(_ context.Context, c volumetest.Call) error {
			if c.Method == "Unmount" && c.Pod == "stuck" && c.Volume == "data" {
				<-unblock // even if the context ends
			}
			return nil
		}
	}, func(t *testing.T, a *agent) {
		stuck, other := newPod("stuck", "data", "more"), newPod("other", "data")
		require.NoError(t, a.Prepare(t.Context(), stuck))
		require.NoError(t, a.Prepare(t.Context(), other))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		err := a.Release(ctx, stuck.UID)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(begun))
		require.ErrorContains(t, err, "data: Uncertain, unmount since "+begun.Format(time.RFC3339))
		require.NotContains(t, err.Error(), "more")
		require.NoDirExists(t, a.dir(stuck, a.plugin, "more"))
		require.NoError(t, a.Release(t.Context(), other.UID))

		err = a.Release(t.Context(), stuck.UID)
		require.ErrorContains(t, err, ", past its timeout")
		require.Equal(t, 2*time.Minute+time.Second, time.Since(begun), "Release returns after the timeout")
		require.True(t, a.Volumes(stuck.UID)[0].Stuck)
		require.ErrorContains(t, a.Prepare(t.Context(), stuck), "unmount since")

		err = a.end()
		require.ErrorIs(t, err, manager.ErrShutdownTimeout)
		require.ErrorContains(t, err, "unmount of volume data of pod ns/pod-stuck (stuck)")
		require.ErrorIs(t, a.Run(t.Context()), manager.ErrAlreadyRun)
		require.ErrorIs(t, a.Prepare(t.Context(), other), manager.ErrEnded)
		close(unblock)
	})
}

// V33: a device that a pod mounts as files is rejected without a call of its plugin.
// TestResolveChecks has the reverse.
func TestV33BlockAndFiles(t *testing.T) {
	inAgent(t, nil, func(t *testing.T, a *agent) {
		bad := newPod("u1", "raw=raw")
		bad.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "raw", MountPath: "/raw"}}
		require.ErrorContains(t, a.Prepare(t.Context(), bad), "has volumeMode Block and is named in volumeMounts")
		require.Zero(t, a.shared.Count("Stage")+a.shared.Count("Mount"))

		good := newPod("u2", "raw=raw")
		require.NoError(t, a.Prepare(t.Context(), good))
		raw, err := a.Volume(t.Context(), good, "raw")
		require.NoError(t, err)
		require.Equal(t, a.cfg.Layout.Device("u2", a.shared.Name(), "pv-raw"), raw.Device)
		a.restart()
		require.NoError(t, a.Release(t.Context(), good.UID))
		a.requireRemoved(good)
	})
}

func TestUnsupportedVolumes(t *testing.T) {
	inAgent(t, func(a *agent) {
		a.cfg.Claims = nil
		a.plugin.Takes = func(s *volume.Spec) bool { return s.Inline != nil && s.Inline.NFS == nil }
		a.cfg.Plugins = append(a.cfg.Plugins, &volumetest.Plugin{
			PluginName: "example.com/too", Takes: func(s *volume.Spec) bool { return s.Inline != nil && s.Inline.HostPath != nil },
		})
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "a", "b", "c=x", "d", "e")
		pod.Spec.Volumes[1].VolumeSource = v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}
		pod.Spec.Volumes[3].VolumeSource = v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}
		pod.Spec.Volumes[4].VolumeSource = v1.VolumeSource{Image: &v1.ImageVolumeSource{}}
		err := a.Prepare(t.Context(), pod)
		require.ErrorContains(t, err, "spec.volumes[1].nfs: this agent has no plugin for volumes of this kind")
		require.ErrorContains(t, err, "spec.volumes[2].persistentVolumeClaim: this agent has no claims")
		require.ErrorContains(t, err, "spec.volumes[3].hostPath: both example.com/memory and example.com/too")
		var notReady *manager.NotReadyError
		require.ErrorAs(t, err, &notReady)
		require.Len(t, notReady.Volumes, 3, "image volumes are not mounted by the manager")
		_, err = a.Volume(t.Context(), pod, "a")
		require.NoError(t, err, "other volumes are mounted")
		_, err = a.Volume(t.Context(), pod, "b")
		require.ErrorContains(t, err, "spec.volumes[1].nfs")

		require.ErrorContains(t, a.Prepare(t.Context(), &v1.Pod{}), "metadata.uid")
		bad := newPod("../x")
		require.ErrorContains(t, a.Prepare(t.Context(), bad), "not a valid folder name")
		require.ErrorContains(t, a.Release(t.Context(), ""), "not a valid folder name")
		require.NoError(t, a.Release(t.Context(), pod.UID))
	})
}

func TestBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := manager.New(manager.Config{Plugins: []volume.Plugin{&volumetest.Plugin{}}, Layout: volume.Layout{Root: t.TempDir()}})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, m.Prepare(ctx, newPod("u1", "data")), "waiting for Run")
		_, known := m.InUse()
		require.False(t, known)
	})
}

// A blocked mount ends with its own timeout, not with the Prepare that waits for it. Other
// mounts are not delayed.
func TestMountHangs(t *testing.T) {
	inAgent(t, func(a *agent) {
		a.plugin.Fault = in("Mount", func(ctx context.Context, c volumetest.Call) error {
			if c.Volume == "slow" {
				return hangs(ctx, c)
			}
			return nil
		})
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "slow", "data")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		err := a.Prepare(ctx, pod)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "slow: NotMounted, mount since")
		_, err = a.Volume(t.Context(), pod, "data")
		require.NoError(t, err)
		require.NoError(t, a.Prepare(t.Context(), newPod("u2", "data")))
		require.Error(t, a.Prepare(t.Context(), pod))
		require.Equal(t, 2*time.Minute, time.Since(begun))
		require.Equal(t, manager.StateUncertain, a.Volumes(pod.UID)[0].State)

		time.Sleep(10 * time.Second) // until it is mounted again
		begun = time.Now()
		require.NoError(t, a.Release(t.Context(), pod.UID))
		require.Zero(t, time.Since(begun), "a release cancels mounts")
		a.requireRemoved(pod)
	})
}

func TestRefresh(t *testing.T) {
	var version atomic.Int64
	var fails atomic.Bool
	var events atomic.Int64
	object := volume.Object{Kind: "ConfigMap", Namespace: "ns", Name: "web"}
	inAgent(t, func(a *agent) {
		a.plugin.Refresh = true
		a.plugin.DependsOn = func(*v1.Pod, *volume.Spec) []volume.Object { return []volume.Object{object} }
		a.plugin.Content = func(context.Context, volume.Mount) (string, error) {
			if fails.Load() {
				return "", errBoom
			}
			return fmt.Sprint(version.Load()), nil
		}
		a.cfg.Event = func(ref v1.ObjectReference, kind, reason, message string) {
			require.Equal(t, types.UID("u1"), ref.UID)
			require.Equal(t, "FailedMount", reason)
			require.Contains(t, message, "boom")
			events.Add(1)
		}
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data")
		content := func() string {
			data, err := os.ReadFile(filepath.Join(a.dir(pod, a.plugin, "data"), "content"))
			require.NoError(t, err)
			return string(data)
		}
		require.Empty(t, a.Objects())
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Equal(t, []volume.Object{object}, a.Objects())
		version.Store(1)
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Equal(t, "1", content(), "each Prepare refreshes the volume")
		version.Store(2)
		a.Changed(object)
		synctest.Wait()
		require.Equal(t, "2", content(), "a changed object refreshes the volume")
		fails.Store(true)
		a.Changed(object)
		begun := time.Now()
		require.NoError(t, a.Prepare(t.Context(), pod), "a failed refresh does not fail Prepare")
		require.Zero(t, time.Since(begun))
		require.Equal(t, "2", content())
		state := a.Volumes(pod.UID)[0]
		require.ErrorIs(t, state.LastError, errBoom)
		require.Equal(t, manager.StateMounted, state.State)
		require.False(t, state.NextTry.IsZero())
		time.Sleep(time.Minute)
		require.Equal(t, int64(1), events.Load(), "one event for all attempts")
		fails.Store(false)
		version.Store(3)
		a.Changed(object)
		synctest.Wait()
		require.Equal(t, "3", content())
		require.NoError(t, a.Volumes(pod.UID)[0].LastError)
	})
}

// A blocked refresh delays a pod by at most a second.
func TestRefreshHangs(t *testing.T) {
	inAgent(t, func(a *agent) {
		a.plugin.Refresh = true
		a.plugin.Fault = func(ctx context.Context, c volumetest.Call) error {
			if c.Again && c.Pod != "other" {
				<-ctx.Done()
			}
			return ctx.Err()
		}
	}, func(t *testing.T, a *agent) {
		var pods []*v1.Pod
		for i := range 20 {
			pods = append(pods, newPod(fmt.Sprint("u", i), "data"))
			require.NoError(t, a.Prepare(t.Context(), pods[i]))
		}
		for _, pod := range pods {
			begun := time.Now()
			require.NoError(t, a.Prepare(t.Context(), pod))
			require.Equal(t, time.Second, time.Since(begun))
		}
		other := newPod("other", "data")
		require.NoError(t, a.Prepare(t.Context(), other), "a first mount is no refresh")
		require.NoError(t, a.Prepare(t.Context(), other))
		time.Sleep(5 * time.Minute)
		require.Equal(t, 2, count(a.plugin.Calls(), "other"), "the refresh of another pod runs")
		for _, pod := range pods {
			require.NoError(t, a.Release(t.Context(), pod.UID))
		}
	})
}

func count(calls []volumetest.Call, uid types.UID) (n int) {
	for _, c := range calls {
		if c.Pod == uid {
			n++
		}
	}
	return n
}

func TestRefreshAt(t *testing.T) {
	next := 48 * time.Minute
	inAgent(t, func(a *agent) {
		a.plugin.RefreshAt = func() time.Time { return time.Now().Add(next) }
	}, func(t *testing.T, a *agent) {
		require.NoError(t, a.Prepare(t.Context(), newPod("u1", "token")))
		time.Sleep(2*next - time.Second)
		require.Equal(t, 2, a.plugin.Count("Mount"))
		time.Sleep(2 * time.Second)
		require.Equal(t, 3, a.plugin.Count("Mount"))
	})
}

// A new volume is not used until its expansion succeeds. A volume in use stays usable if its
// expansion fails.
func TestExpand(t *testing.T) {
	size, fails := "1Gi", atomic.Bool{}
	var events journal
	inAgent(t, func(a *agent) {
		a.cfg.Event = func(ref v1.ObjectReference, eventtype, reason, _ string) {
			events.add(ref.Kind, " ", ref.Name, " ", eventtype, " ", reason)
		}
		a.cfg.Claims = claims{"x": func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "x"}
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
		}}
		a.shared.Fault = in("Expand", failing(&fails))
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "disk=x")
		fails.Store(true)
		require.ErrorIs(t, a.Prepare(t.Context(), pod), errBoom)
		_, err := a.Volume(t.Context(), pod, "disk")
		require.ErrorContains(t, err, "boom")
		fails.Store(false)
		time.Sleep(time.Second)
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Equal(t, 2, a.shared.Count("Expand"))
		size = "2Gi"
		fails.Store(true)
		require.NoError(t, a.Prepare(t.Context(), pod))
		synctest.Wait()
		fails.Store(false)
		time.Sleep(time.Second)
		require.Equal(t, 4, a.shared.Count("Expand"))
		time.Sleep(time.Hour)
		require.Equal(t, 4, a.shared.Count("Expand"))
		var want []string
		for _, event := range []string{"Warning FileSystemResizeFailed", "Warning VolumeResizeFailed", "Normal FileSystemResizeSuccessful"} {
			want = append(want, "Pod pod-u1 "+event, "PersistentVolumeClaim x "+event)
		}
		require.Equal(t, want, events.take())
	})
}

// Devices have their own event reasons, and an error may supply a reason.
func TestEvents(t *testing.T) {
	var fails atomic.Pointer[error]
	fail := func(err error) { fails.Store(&err) }
	var events journal
	inAgent(t, func(a *agent) {
		a.shared.Plugin.Fault = in("Mount", func(context.Context, volumetest.Call) error { return *fails.Load() })
		a.plugin.Content = func(_ context.Context, m volume.Mount) (string, error) {
			m.OnProgress(17)
			return "", nil
		}
		a.cfg.Event = func(_ v1.ObjectReference, eventtype, reason, message string) {
			events.add(eventtype, " ", reason, ": ", message)
		}
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "raw=raw")
		reason := func(want string) {
			var notReady *manager.NotReadyError
			require.ErrorAs(t, a.Prepare(t.Context(), pod), &notReady)
			require.Equal(t, want, notReady.EventReason())
			require.Equal(t, `MapVolume.MapPodDevice failed for volume "pv-raw" : boom`, notReady.EventMessage())
		}
		fail(errBoom)
		reason("FailedMapVolume")
		fail(errorWithReason{errBoom})
		time.Sleep(3 * time.Minute)
		reason("OwnReason")
		require.Empty(t, events.take())
		fail(nil)
		time.Sleep(3 * time.Minute)
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.NoError(t, a.Prepare(t.Context(), newPod("u2", "data")))
		require.Equal(t, []string{
			`Normal SuccessfulMountVolume: volume "pv-raw" is mapped`,
			`Warning VolumePermissionChangeInProgress: Setting volume ownership for u2/volumes/example.com~memory/data, processed 17 files.`,
		}, events.take())
	})
}

// A missing sub path is an event only in volumes whose files come from objects or the pod.
func TestSubPathCreated(t *testing.T) {
	var events journal
	inAgent(t, func(a *agent) {
		a.cfg.Event = func(ref v1.ObjectReference, eventtype, reason, message string) {
			events.add(ref.Name, " ", eventtype, " ", reason, ": ", message)
		}
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "cm", "secret", "fields", "all", "scratch")
		for i, source := range []v1.VolumeSource{
			{ConfigMap: &v1.ConfigMapVolumeSource{}}, {Secret: &v1.SecretVolumeSource{}},
			{DownwardAPI: &v1.DownwardAPIVolumeSource{}}, {Projected: &v1.ProjectedVolumeSource{}},
		} {
			pod.Spec.Volumes[i].VolumeSource = source
		}
		require.NoError(t, a.Prepare(t.Context(), pod))
		for _, v := range append(pod.Spec.Volumes, v1.Volume{Name: "other"}) {
			a.SubPathCreated(volume.SubPath{PodUID: "u1", Container: "c", Volume: v.Name, Path: "app.yaml"})
		}
		a.SubPathCreated(volume.SubPath{PodUID: "u2", Container: "c", Volume: "cm", Path: "app.yaml"})
		var want []string
		for _, v := range pod.Spec.Volumes[:4] {
			want = append(want, fmt.Sprintf("pod-u1 Warning SubPathNotFound: volume %q has no file for subPath \"app.yaml\": container \"c\" mounts an empty folder instead", v.Name))
		}
		require.Equal(t, want, events.take())
	})
}

type errorWithReason struct{ error }

func (errorWithReason) EventReason() string { return "OwnReason" }

// An unreadable claim does not fail a pod whose volume is mounted.
func TestMountedClaimCannotBeRead(t *testing.T) {
	var events atomic.Int64
	all := claims{}
	inAgent(t, func(a *agent) {
		a.cfg.Claims = all
		a.cfg.Event = func(v1.ObjectReference, string, string, string) { events.Add(1) }
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "disk=x")
		require.NoError(t, a.Prepare(t.Context(), pod))
		all["x"] = func(*v1.PersistentVolume) { panic(errBoom) }
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Equal(t, int64(1), events.Load())
		require.ErrorIs(t, a.Volumes(pod.UID)[0].LastError, errBoom)
		_, err := a.Volume(t.Context(), pod, "disk")
		require.NoError(t, err)
	})
}

type subPaths struct {
	fail atomic.Bool
	uids journal
}

func (s *subPaths) ReleasePod(ctx context.Context, uid types.UID) error {
	s.uids.add(uid)
	return failing(&s.fail)(ctx, volumetest.Call{})
}

// Sub paths are released before their volumes, and only once: a retried release continues at
// the step that failed.
func TestSubPathsFirst(t *testing.T) {
	sub := &subPaths{}
	var fails atomic.Bool
	inAgent(t, func(a *agent) {
		a.cfg.SubPaths = sub
		a.plugin.Fault = in("Unmount", failing(&fails))
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data")
		require.NoError(t, a.Prepare(t.Context(), pod))
		file := a.cfg.Layout.SubPath(pod.UID, "data", "c", 0)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, nil, 0o640))
		sub.fail.Store(true)
		err := a.Release(t.Context(), pod.UID)
		require.ErrorIs(t, err, errBoom)
		require.ErrorContains(t, err, "sub paths: boom")
		require.Zero(t, a.plugin.Count("Unmount"))
		sub.fail.Store(false)
		fails.Store(true)
		sub.uids.take()
		time.Sleep(time.Second)
		for range 3 {
			require.ErrorIs(t, a.Release(t.Context(), pod.UID), errBoom)
		}
		require.Equal(t, []string{"u1"}, sub.uids.take())
		fails.Store(false)
		time.Sleep(time.Minute)
		require.NoError(t, a.Release(t.Context(), pod.UID))
		a.requireRemoved(pod)
	})
}

// V29: foreign files are never deleted; errors contain their paths.
func TestForeignFolders(t *testing.T) {
	inAgent(t, nil, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data")
		require.NoError(t, a.Prepare(t.Context(), pod))
		empty := a.cfg.Layout.Volume(pod.UID, "example.com/gone", "empty")
		full := a.cfg.Layout.Volume(pod.UID, "example.com/gone", "full")
		stray := filepath.Join(a.cfg.Layout.Volumes(pod.UID), "stray")
		require.NoError(t, os.MkdirAll(empty, 0o750))
		require.NoError(t, os.MkdirAll(filepath.Join(full, "precious"), 0o750))
		require.NoError(t, os.WriteFile(stray, nil, 0o600))
		err := a.Release(t.Context(), pod.UID)
		require.ErrorContains(t, err, `this agent has no plugin "example.com/gone": `+full+": not empty")
		require.NoDirExists(t, empty)
		require.NoDirExists(t, a.dir(pod, a.plugin, "data"))
		require.NoError(t, os.Remove(filepath.Join(full, "precious")))
		time.Sleep(time.Second)
		require.ErrorContains(t, a.Release(t.Context(), pod.UID), stray)
		require.NoError(t, os.Remove(stray))
		time.Sleep(3 * time.Second)
		require.NoError(t, a.Release(t.Context(), pod.UID))
		a.requireRemoved(pod)
	})
}

// Operations on devices have their own names.
func TestMetrics(t *testing.T) {
	var operations, ready journal
	inAgent(t, func(a *agent) {
		a.plugin.Latency, a.shared.Latency = time.Second, time.Second // orders the callbacks
		a.cfg.Metrics.OnOperation = func(o manager.Operation) { operations.add(o.Name, " ", o.Plugin, " ", o.Took, " ", o.Err) }
		a.cfg.Metrics.OnReady = func(_ string, d time.Duration) { ready.add(d) }
	}, func(t *testing.T, a *agent) {
		time.Sleep(time.Second)
		operations.take() // drops the listing of staged volumes
		require.NoError(t, a.Prepare(t.Context(), newPod("u1", "data")))
		require.Equal(t, map[manager.Count]int{{Plugin: "example.com/memory", State: manager.StateMounted, Wanted: true}: 1}, a.Counts())
		require.NoError(t, a.Release(t.Context(), "u1"))
		require.Equal(t, []string{"1s"}, ready.take())
		require.Equal(t, []string{"volume_mount example.com/memory 1s <nil>", "volume_unmount example.com/memory 1s <nil>"}, operations.take())
		require.NoError(t, a.Prepare(t.Context(), newPod("u2", "raw=raw")))
		require.NoError(t, a.Release(t.Context(), "u2"))
		time.Sleep(time.Second)
		require.Equal(t, []string{
			"verify_controller_attached_volume example.com/shared 0s <nil>", "mount_device example.com/shared 1s <nil>",
			"map_volume example.com/shared 1s <nil>", "unmap_volume example.com/shared 1s <nil>", "unmap_device example.com/shared 1s <nil>",
		}, operations.take())
	})
}

// Volumes of an earlier agent are reported when they are found and when they are unmounted.
func TestMetricsOfFoundVolumes(t *testing.T) {
	var reported journal
	inAgent(t, nil, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data", "disk=x")
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.NoError(t, a.end())
		require.NoError(t, os.MkdirAll(a.cfg.Layout.Volume(pod.UID, "example.com/other", "v"), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(a.dir(pod, a.shared, "pv-x"), "id"), []byte("{"), 0o600))
		a.cfg.Metrics = manager.Metrics{
			OnFound: func(plugin string, known bool) { reported.add("found ", plugin, " ", known) },
			OnOperation: func(o manager.Operation) {
				if o.Name == "volume_unmount" {
					reported.add("unmount ", o.Plugin, " forced ", o.Forced)
				}
			},
		}
		a.restart()
		require.NoError(t, a.Release(t.Context(), pod.UID))
		require.ElementsMatch(t, []string{
			"found example.com/memory true", "found example.com/other false", "found example.com/shared false",
			"unmount example.com/memory forced false", "unmount example.com/shared forced true",
		}, reported.take())
	})
}

// A blocked claim delays only its own volume, and the error has the start time of the read. It
// delays the sync of a pod with mounted volumes by a second, and an event is recorded.
func TestClaimThatHangs(t *testing.T) {
	var hang, ignoresContext atomic.Bool
	var answer chan struct{}
	var events []string
	inAgent(t, func(a *agent) {
		answer = make(chan struct{})
		a.cfg.Claims = resolver(func(ctx context.Context, pod *v1.Pod, v v1.Volume) (*volume.Spec, error) {
			switch {
			case ignoresContext.Load():
				<-answer
			case hang.Load():
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return claims{}.Resolve(ctx, pod, v)
		})
		a.cfg.Event = func(_ v1.ObjectReference, _, reason, message string) { events = append(events, reason+": "+message) }
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data", "disk=x", "other=y")
		hang.Store(true)
		begun := time.Now()
		done := make(chan error, 1)
		go func() { done <- a.Prepare(t.Context(), pod) }()
		synctest.Wait()
		_, err := a.Volume(t.Context(), pod, "data")
		require.NoError(t, err, "a volume without a claim is mounted")
		_, err = a.Volume(t.Context(), pod, "disk")
		require.ErrorContains(t, err, "disk: NotMounted, read its claim since")
		err = <-done
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "next try")
		require.Equal(t, 2*time.Minute, time.Since(begun))

		hang.Store(false)
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Empty(t, events)

		hang.Store(true)
		begun = time.Now()
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Equal(t, time.Second, time.Since(begun))
		require.Len(t, events, 2)
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Len(t, events, 2, "the event is not repeated")

		// The read ignores its context, and the pod is released in the meantime.
		hang.Store(false)
		ignoresContext.Store(true)
		begun = time.Now()
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Equal(t, time.Second, time.Since(begun))
		require.NoError(t, a.Release(t.Context(), pod.UID))
		a.requireRemoved(pod)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		go func() { done <- a.Prepare(ctx, pod) }()
		synctest.Wait()
		require.NoError(t, a.Release(t.Context(), pod.UID))
		require.ErrorIs(t, <-done, manager.ErrReleased)
		require.Nil(t, a.Volumes(pod.UID), "a late claim does not restore the pod")
		close(answer)
		synctest.Wait()
		ignoresContext.Store(false)
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.NoError(t, a.Release(t.Context(), pod.UID))
	})
}

type resolver func(context.Context, *v1.Pod, v1.Volume) (*volume.Spec, error)

func (r resolver) Resolve(ctx context.Context, pod *v1.Pod, v v1.Volume) (*volume.Spec, error) {
	return r(ctx, pod, v)
}

// ExtraGroups returns each group of the persistent volumes once, without the groups of the
// pod's spec.
func TestExtraGroups(t *testing.T) {
	group := func(gid string) func(*v1.PersistentVolume) {
		return func(pv *v1.PersistentVolume) { pv.Annotations = map[string]string{"pv.beta.kubernetes.io/gid": gid} }
	}
	inAgent(t, func(a *agent) {
		a.cfg.Claims = claims{"a": group("2000"), "b": group("1000"), "c": group("2000"), "own": group("7"), "bad": group("staff")}
	}, func(t *testing.T, a *agent) {
		pod := newPod("u1", "data", "a=a", "again=a", "b=b", "c=c", "own=own", "bad=bad", "none=x")
		pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroups: []int64{7}}
		require.Nil(t, a.ExtraGroups(pod))
		require.NoError(t, a.Prepare(t.Context(), pod))
		require.Equal(t, []int64{1000, 2000}, a.ExtraGroups(pod))
		plain := newPod("u2", "own=own")
		require.NoError(t, a.Prepare(t.Context(), plain))
		require.Equal(t, []int64{7}, a.ExtraGroups(plain), "a pod without any groups")
		require.NoError(t, a.Release(t.Context(), pod.UID))
		require.Nil(t, a.ExtraGroups(pod))
	})
}
