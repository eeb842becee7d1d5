package csi_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/manager"
	"github.com/podwright/podwright/volume/objects"
)

// agent is a manager.Manager with the plugin, on a disk that survives restarts of the agent.
type agent struct {
	*fixture
	*manager.Manager
	cfg  manager.Config
	log  *record
	stop func()
}

type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *record) take() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, r.lines = r.lines, nil
	return out
}

// inAgent runs a test with an agent in a synctest bubble.
func inAgent(t *testing.T, test func(*agent), change ...func(*agent)) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := &agent{log: &record{}}
		a.fixture = newFixture(t, func(cfg *csi.Config) {
			cfg.Layout = volume.Layout{Root: root}
			cfg.Metrics.OnCall = func(c csi.Call) {
				if c.Method != "NodeGetCapabilities" {
					a.log.add("%s", c.Method)
				}
			}
		})
		a.layout = a.fixture.cfg.Layout
		a.cfg = manager.Config{
			Layout: a.layout, Claims: claims{}, SubPaths: a.log, Complete: func() bool { return true },
			OnReady: func(uid types.UID) { a.log.add("ready %s", uid) },
		}
		for _, f := range change {
			f(a)
		}
		a.start()
		defer func() { a.stop() }()
		test(a)
	})
}

// ReleasePod makes record the manager's SubPaths.
func (r *record) ReleasePod(_ context.Context, uid types.UID) error {
	r.add("sub paths of %s", uid)
	return nil
}

func (a *agent) start() {
	a.fixture.restart()
	a.cfg.Plugins = []volume.Plugin{a.Plugin}
	m, err := manager.New(a.cfg)
	require.NoError(a, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	a.Manager = m
	a.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(a, <-ended)
	})
}

// follow passes changed objects to the manager.
func (a *agent) follow(memory *objects.Memory) {
	memory.OnChange(func(changed []volume.Object) {
		for _, o := range changed {
			a.Changed(o)
		}
	})
}

// again replaces the agent, as after a kill -9. The new agent has only the files on the disk.
func (a *agent) again() {
	a.stop()
	a.start()
}

func (a *agent) prepare(pod *v1.Pod) error      { return a.Manager.Prepare(a.Context(), pod) }
func (a *agent) release(uid types.UID) error    { return a.Manager.Release(a.Context(), uid) }
func (a *agent) explain(uid types.UID) []string { return texts(a.Volumes(uid)) }

func texts(states []manager.VolumeState) (out []string) {
	for _, s := range states {
		out = append(out, s.String())
	}
	return out
}

// claims resolves claims to PersistentVolumes: "pv" has files, "device" is a device, "other"
// belongs to another driver, "own" is ReadWriteOncePod, "grows" needs an expansion with a
// secret.
type claims struct{}

func (claims) Resolve(_ context.Context, _ *v1.Pod, v v1.Volume) (*volume.Spec, error) {
	name := v.PersistentVolumeClaim.ClaimName
	spec := persistent(v1.PersistentVolumeFilesystem)
	if name == "device" {
		spec = persistent(v1.PersistentVolumeBlock)
	}
	if name == "own" {
		spec.Persistent.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	spec.Name, spec.Persistent.Name = name, name
	source := spec.Persistent.Spec.CSI
	if name == "grows" {
		spec.Persistent.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		source.NodeExpandSecretRef = &v1.SecretReference{Namespace: "storage", Name: "expand"}
	}
	source.VolumeHandle = "h/" + name
	source.NodeStageSecretRef = &v1.SecretReference{Namespace: "storage", Name: "stage"}
	source.NodePublishSecretRef = &v1.SecretReference{Namespace: "storage", Name: "publish"}
	return spec, nil
}

// uses returns a pod with a volume: the claim, or an inline volume if claim is empty.
func uses(uid types.UID, claim string) *v1.Pod {
	p := pod(uid)
	p.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: "p" + string(uid), UID: uid}
	source := v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}}
	if claim != "" {
		source = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	}
	p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: source}}
	c := v1.Container{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}}}
	if claim == "device" {
		c = v1.Container{Name: "c", VolumeDevices: []v1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}}
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

func withSecrets(a *agent) {
	secrets := &objects.Memory{}
	for _, name := range []string{"stage", "publish"} {
		secrets.PutSecret(&v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: name}, Data: map[string][]byte{"key": []byte(name)},
		})
	}
	a.fixture.cfg.Secrets = secrets
}

// controller reports each volume as attached.
type controller struct{ log *record }

func (c *controller) Attached(_ context.Context, id volume.ID, _ *volume.Spec) (string, error) {
	c.log.add("attached? %s", id)
	return "", nil
}

func (c *controller) PublishContext(context.Context, string) (map[string]string, error) {
	return map[string]string{"disk": "7"}, nil
}

func attached(a *agent) {
	c := &controller{a.log}
	a.cfg.Attachments, a.fixture.cfg.Attachments = c, c
}

// A claimed volume is attached, staged once for two pods and published for each. It is removed
// in reverse order when the last pod ends.
func TestLifeOfAClaim(t *testing.T) {
	inAgent(t, func(a *agent) {
		require.NoError(t, a.prepare(uses("1", "pv")))
		require.Equal(t, []string{"attached? kubernetes.io/csi/example.com^h/pv", "NodeStageVolume", "NodePublishVolume"}, a.log.take())
		disk := map[string]string{"disk": "7"}
		require.Equal(t, disk, a.fake.stage.PublishContext)
		require.Equal(t, disk, a.fake.publish.PublishContext)
		require.Equal(t, map[string]string{"key": "stage"}, a.fake.stage.Secrets)
		require.Equal(t, map[string]string{"key": "publish"}, a.fake.publish.Secrets)
		require.Equal(t, a.fake.stage.StagingPath, a.fake.publish.StagingPath)
		require.NoError(t, a.prepare(uses("2", "pv")))
		require.NoError(t, a.prepare(uses("2", "pv")), "Prepare can be repeated")
		require.Equal(t, []string{"NodePublishVolume"}, a.log.take())
		names, _ := a.InUse()
		require.Equal(t, []string{"kubernetes.io/csi/example.com^h/pv"}, names)
		at, err := a.Volume(t.Context(), uses("2", "pv"), "v")
		require.NoError(t, err)
		require.Equal(t, a.layout.Volume("2", csi.Name, "pv")+"/mount", at.Path)

		require.NoError(t, a.release("1"))
		synctest.Wait()
		require.Equal(t, []string{"sub paths of 1", "NodeUnpublishVolume"}, a.log.take())
		require.NoDirExists(t, a.layout.Volumes("1"))
		require.NoError(t, a.release("2"))
		synctest.Wait()
		require.Equal(t, []string{"sub paths of 2", "NodeUnpublishVolume", "NodeUnstageVolume"}, a.log.take())
		require.Empty(t, tree(t, a.layout.Root))
		names, known := a.InUse()
		require.True(t, known)
		require.Empty(t, names)
	}, withSecrets, attached)
}

// The agent is killed in each call of a driver, before and after its effect. The next agent
// completes the work and leaves no files, whether the pod still exists or not.
func TestKilledInEveryCall(t *testing.T) {
	for _, claim := range []string{"pv", "device", ""} {
		for _, method := range []string{"Stage", "Publish", "Unpublish", "Unstage"} {
			for _, before := range []bool{true, false} {
				for _, podExists := range []bool{true, false} {
					if claim == "" && (method == "Stage" || method == "Unstage") {
						continue
					}
					t.Run(fmt.Sprintf("%s %s before=%v podExists=%v", claim, method, before, podExists), func(t *testing.T) {
						inAgent(t, func(a *agent) { a.killedIn(uses("1", claim), method, before, podExists) }, withSecrets)
					})
				}
			}
		}
	}
}

func (a *agent) killedIn(pod *v1.Pod, method string, before, podExists bool) {
	reached := make(chan struct{}, 1)
	hang := func(ctx context.Context, m string) error {
		if m == method {
			reached <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	if before {
		a.fake.fault = hang
	} else {
		a.fake.after = hang
	}
	ctx, cancel := context.WithCancel(a.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		if a.Manager.Prepare(ctx, pod) == nil {
			_ = a.Manager.Release(ctx, pod.UID)
		}
	}()
	<-reached
	cancel()
	a.stop()
	<-over
	a.fake.fault, a.fake.after = nil, nil
	a.start()
	if podExists {
		require.NoError(a, a.prepare(pod))
		at, err := a.Volume(a.Context(), pod, "v")
		require.NoError(a, err)
		_, err = os.Stat(at.Path + at.Device)
		require.NoError(a, err)
	}
	require.NoError(a, a.release(pod.UID))
	time.Sleep(5 * time.Second)
	require.Empty(a, tree(a, a.layout.Root))
	require.NoDirExists(a, a.layout.Volumes(pod.UID))
	require.NoDirExists(a, a.layout.Devices(pod.UID))
}

// lateDrivers has a driver that registers and unregisters.
type lateDrivers struct {
	mu sync.Mutex
	is csi.Driver
}

func (d *lateDrivers) Driver(string) csi.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.is
}

func (*lateDrivers) Absence(string) string { return "the driver registers soon" }

func (d *lateDrivers) set(is csi.Driver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.is = is
}

// A new driver is called at once for all volumes that wait for it, despite the back-off.
func TestPodWaitsForDriver(t *testing.T) {
	var drivers lateDrivers
	inAgent(t, func(a *agent) {
		for _, step := range []struct {
			do      func() error
			message string
			want    []string
		}{
			{func() error { return a.prepare(uses("1", "pv")) }, `driver "example.com" is not registered on this node: the driver registers soon`, []string{"NodeStageVolume", "NodePublishVolume", "ready 1"}},
			{func() error { return a.release("1") }, `driver "example.com" is not registered`, []string{"NodeUnpublishVolume", "NodeUnstageVolume"}},
		} {
			require.ErrorContains(t, step.do(), step.message)
			time.Sleep(10 * time.Minute)
			require.Contains(t, a.explain("1")[0], step.message)
			a.log.take()
			drivers.set(a.fake)
			a.Retry(csi.Name)
			synctest.Wait()
			require.Equal(t, step.want, a.log.take())
			drivers.set(nil)
		}
		require.Empty(t, tree(t, a.layout.Root))
	}, withSecrets, func(a *agent) { a.fixture.cfg.Drivers = &drivers })
}

// A volume is mounted as soon as the objects that it names exist. Later changes cause a call
// only for drivers with requiresRepublish.
func TestPodWaitsForCSIDriverAndSecret(t *testing.T) {
	for _, republish := range []bool{false, true} {
		memory := &objects.Memory{}
		inAgent(t, func(a *agent) {
			a.follow(memory)
			p := uses("1", "")
			p.Spec.Volumes[0].CSI.NodePublishSecretRef = &v1.LocalObjectReference{Name: "key"}
			require.ErrorContains(t, a.prepare(p), "does not list the mode Ephemeral")
			time.Sleep(10 * time.Minute)
			spec := both
			spec.RequiresRepublish = &republish
			described, err := spec.CSIDriver(driver)
			require.NoError(t, err)
			described.Name = driver
			memory.PutCSIDriver(described)
			synctest.Wait()
			require.Contains(t, a.explain("1")[0], `secret "ns/key" not found`)
			require.Empty(t, a.log.take())
			time.Sleep(10 * time.Minute)
			secret := func(value string) {
				memory.PutSecret(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "key"}, Data: map[string][]byte{"k": []byte(value)}})
				synctest.Wait()
			}
			secret("one")
			require.Equal(t, []string{"NodePublishVolume", "ready 1"}, a.log.take())
			secret("two")
			require.NoError(t, a.prepare(p))
			if republish {
				require.Equal(t, "two", a.fake.publish.Secrets["k"])
			} else {
				require.Equal(t, "one", a.fake.publish.Secrets["k"])
				require.Empty(t, a.log.take())
			}
		}, func(a *agent) { a.fixture.cfg.CSIDrivers, a.fixture.cfg.Secrets = memory, memory })
	}
}

// Secrets for staging and expansion may appear later, too. The volume is retried at once,
// despite the back-off.
func TestPodWaitsForSecret(t *testing.T) {
	for late, c := range map[string]struct {
		claim string
		want  []string
	}{
		"stage":  {"pv", []string{"NodeStageVolume", "NodePublishVolume", "ready 1"}},
		"expand": {"grows", []string{"NodeExpandVolume", "ready 1"}},
	} {
		memory := &objects.Memory{}
		inAgent(t, func(a *agent) {
			a.fake.can.Expand = true
			a.follow(memory)
			put := func(name string) {
				memory.PutSecret(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: name}})
				synctest.Wait()
			}
			for _, name := range []string{"stage", "publish", "expand"} {
				if name != late {
					put(name)
				}
			}
			require.ErrorContains(t, a.prepare(uses("1", c.claim)), `secret "storage/`+late+`" not found`)
			time.Sleep(10 * time.Minute)
			a.log.take()
			put("other")
			require.Empty(t, a.log.take())
			put(late)
			require.Equal(t, c.want, a.log.take())
			put(late)
			require.Empty(t, a.log.take(), "a mounted volume stays unchanged")
		}, func(a *agent) { a.fixture.cfg.Secrets = memory })
	}
}
