package agent

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/podworkers"
	nodestatus "github.com/podwright/podwright/status/node"
)

// fullDisk has an agent find its disk too full, whatever it is: a byte less than all of it
// has to be free.
func fullDisk(t *testing.T, w *world) {
	var is unix.Statfs_t
	require.NoError(t, unix.Statfs(w.dir, &is))
	w.configure = func(cfg *Config) {
		k := &cfg.Kubelet
		k.EvictionHard = map[string]string{"nodefs.available": strconv.FormatUint(is.Blocks*uint64(is.Bsize)-1, 10)}
		k.EvictionPressureTransitionPeriod.Duration = time.Minute
	}
}

func (w *world) nodeCondition(kind v1.NodeConditionType) string {
	n, ok := apitest.Find(w.api, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	require.True(w.t, ok)
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// N14, N24: a pod goes, for a disk that is too full; its status, the Node and the events say
// so, and who comes later is refused. A critical pod stays, and there is no busy loop (N29).
func TestEviction(t *testing.T) {
	inWorld(t, fake.Config{Programs: fake.ByContainer(nil, fake.SleepUntilStopped)}, func(w *world) {
		w.api = apitest.Start(w.t)
		critical := bound("critical", "c")
		critical.Spec.Priority = new(int32(2_000_000_000))
		w.api.Put(bound("a", "c"))
		w.api.Put(critical)
		w.start()
		w.sleep(30 * time.Second)
		require.Equal(t, v1.PodRunning, w.at("a").Status.Phase)
		w.stop()
		fullDisk(t, w) // for the next agent, which finds the pods running
		w.start()
		w.sleep(30 * time.Second)

		a := w.at("a")
		require.Equal(t, v1.PodFailed, a.Status.Phase)
		require.Equal(t, "Evicted", a.Status.Reason)
		require.Contains(t, a.Status.Message, "The node was low on resource: ephemeral-storage. Threshold quantity: ")
		var disrupted []string
		for _, c := range a.Status.Conditions {
			if c.Type == v1.DisruptionTarget {
				disrupted = append(disrupted, string(c.Status)+" "+c.Reason)
			}
		}
		require.Equal(t, []string{"True TerminationByKubelet"}, disrupted)
		require.Equal(t, podworkers.StateFinished, w.agent.workers.State(a.UID).State)
		require.Equal(t, v1.PodRunning, w.at("critical").Status.Phase)
		require.Equal(t, "True KubeletHasDiskPressure", w.nodeCondition(v1.NodeDiskPressure))
		require.Equal(t, "False KubeletHasSufficientMemory", w.nodeCondition(v1.NodeMemoryPressure))
		require.Contains(t, w.events("a"), "Evicted")
		require.Contains(t, w.events("n"), "EvictionThresholdMet")
		require.Contains(t, w.events("n"), "NodeHasDiskPressure")
		for _, e := range apitest.All[*v1.Event](w.api) {
			if e.Reason == "Evicted" {
				require.Equal(t, "ephemeral-storage", e.Annotations["starved_resource"])
			}
		}
		w.api.Put(bound("late", "c"))
		w.sleep(5 * time.Second)
		late := w.at("late")
		require.Equal(t, "Evicted", late.Status.Reason)
		require.Equal(t, "Pod was rejected: The node had condition: [DiskPressure]. ", late.Status.Message)
		w.remove("a")
		w.remove("late")
		w.remove("critical")
		w.sleep(time.Minute)
		w.requireNothingLeft()
	})
}

// A pod over its limit goes alone, and the node is short of nothing (N28).
func TestEvictionOverItsLimit(t *testing.T) {
	inWorld(t, fake.Config{Programs: fake.ByContainer(nil, fake.SleepUntilStopped)}, func(w *world) {
		w.api = apitest.Start(w.t)
		over, other := bound("over", "c"), bound("other", "c")
		over.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1k"))}}}}
		over.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		w.api.Put(over)
		w.api.Put(other)
		w.start()
		w.sleep(5 * time.Second)
		folder, ok := w.agent.volumeFolder(t.Context(), w.at("over"), "v")
		require.True(t, ok, "%v", w.at("over").Status)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "f"), make([]byte, 64<<10), 0o600))
		w.sleep(3 * time.Minute)
		require.Equal(t, v1.PodRunning, w.at("other").Status.Phase)
		require.Equal(t, nodestatus.Pressure{}, (state{node: w.agent}).pressure())
		over = w.at("over")
		require.Equal(t, "Evicted", over.Status.Reason)
		require.Equal(t, `emptyDir volume "v" uses more than its limit of 1k. `, over.Status.Message)
		for _, c := range over.Status.Conditions {
			require.NotEqual(t, v1.DisruptionTarget, c.Type)
		}
	})
}

// N27: images have a small file system of their own. What the runtime frees there by removing
// an image that nobody uses keeps the pod alive, which goes otherwise.
func TestEvictionOfImages(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root")
	}
	for name, frees := range map[string]bool{"enough": true, "nothing": false} {
		t.Run(name, func(t *testing.T) {
			disk := t.TempDir()
			require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH)) })
			layer := filepath.Join(disk, "layer")
			var removed []string
			inWorld(t, fake.Config{
				Programs: fake.ByContainer(nil, fake.SleepUntilStopped), ImageFilesystem: disk, Images: []fake.Image{{Name: "unused"}},
				Intercept: func(_ context.Context, call string, request any) error {
					if call != "RemoveImage" {
						return nil
					}
					removed = append(removed, call)
					if frees {
						return os.Remove(layer)
					}
					return nil
				},
			}, func(w *world) {
				w.api = apitest.Start(w.t)
				w.api.Put(bound("a", "c"))
				w.configure = func(cfg *Config) {
					cfg.Kubelet.EvictionHard = map[string]string{"imagefs.available": "2Mi"}
					cfg.Kubelet.EvictionPressureTransitionPeriod.Duration = time.Minute
				}
				w.start()
				w.sleep(30 * time.Second)
				require.Empty(t, removed)
				require.NoError(t, os.WriteFile(layer, make([]byte, 3<<20), 0o600))
				w.sleep(30 * time.Second)
				require.Len(t, removed, 1)
				require.Contains(t, w.events("n"), "EvictionThresholdMet")
				require.Equal(t, "True KubeletHasDiskPressure", w.nodeCondition(v1.NodeDiskPressure))
				if !frees {
					require.Equal(t, "Evicted", w.at("a").Status.Reason)
					return
				}
				w.sleep(2 * time.Minute)
				require.Equal(t, v1.PodRunning, w.at("a").Status.Phase)
				require.NotContains(t, w.events("a"), "Evicted")
				require.Equal(t, "False KubeletHasNoDiskPressure", w.nodeCondition(v1.NodeDiskPressure))
			})
		})
	}
}

// KEP-4191: images have a disk of their own, and what containers write is where pods are. An
// image that nobody uses goes when the disk of images is short, and not for the other one.
func TestEvictionOnSplitDisks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root")
	}
	for short, want := range map[string]struct{ removed, phase string }{
		"images": {"RemoveImage", "Running"},
		"node":   {"", "Failed"},
	} {
		t.Run(short, func(t *testing.T) {
			disk := t.TempDir()
			require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH)) })
			layer, removed := filepath.Join(disk, "layer"), ""
			require.NoError(t, os.WriteFile(layer, make([]byte, 3<<20), 0o600))
			inWorld(t, fake.Config{
				Programs: fake.ByContainer(nil, fake.SleepUntilStopped), ImageFilesystem: disk, ContainerFilesystem: t.TempDir(), Images: []fake.Image{{Name: "unused"}},
				Intercept: func(_ context.Context, call string, request any) error {
					if call != "RemoveImage" {
						return nil
					}
					removed = call
					return os.Remove(layer)
				},
			}, func(w *world) {
				w.api = apitest.Start(w.t)
				w.api.Put(bound("a", "c"))
				w.start()
				w.sleep(5 * time.Second)
				w.stop() // the next agent finds the pod running
				w.configure = func(cfg *Config) { cfg.Kubelet.EvictionHard = map[string]string{"imagefs.available": "2Mi"} }
				if short == "node" {
					fullDisk(t, w)
				}
				w.start()
				w.sleep(30 * time.Second)
				require.Equal(t, want.removed, removed)
				require.Equal(t, want.phase, string(w.at("a").Status.Phase))
				require.Equal(t, want.phase == "Running", len(w.running()) == 1)
				require.Contains(t, w.events("n"), "EvictionThresholdMet")
			})
		})
	}
}
