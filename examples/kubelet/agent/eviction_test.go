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

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop/eviction"
)

// fullDisk makes every disk too full for the agent: the threshold is one byte below the capacity.
func fullDisk(t *testing.T, w *world) {
	var is unix.Statfs_t
	require.NoError(t, unix.Statfs(w.dir, &is))
	w.configure = func(cfg *Config) {
		k := &cfg.Kubelet
		k.EvictionHard = map[string]string{"nodefs.available": strconv.FormatUint(is.Blocks*uint64(is.Bsize)-1, 10)}
		k.EvictionPressureTransitionPeriod.Duration = time.Minute
	}
}

// N14, N24: a full disk evicts a pod. Its status, the Node and events report it, and later pods are
// rejected. A critical pod stays, and there is no busy loop (N29).
func TestEviction(t *testing.T) {
	inCluster(t, func(w *world) {
		critical := bound("critical", "c")
		critical.Spec.Priority = new(int32(2_000_000_000))
		w.put(bound("a", "c"), critical)
		w.startFor(30 * time.Second)
		require.Equal(t, v1.PodRunning, w.at("a").Status.Phase)
		w.stop()
		fullDisk(t, w) // for the next agent, which takes over the running pods
		w.startFor(30 * time.Second)

		require.Regexp(t, `^Failed Evicted: The node was low on resource: ephemeral-storage\. Threshold quantity: .* \(True TerminationByKubelet: `, w.ended("a"))
		require.Equal(t, podworkers.StateFinished, w.agent.syncer.Workers().State(w.at("a").UID).State)
		require.Equal(t, v1.PodRunning, w.at("critical").Status.Phase)
		require.Contains(t, w.nodeCondition(v1.NodeDiskPressure), "True KubeletHasDiskPressure: ")
		require.Contains(t, w.nodeCondition(v1.NodeMemoryPressure), "False KubeletHasSufficientMemory: ")
		require.Contains(t, w.events("a"), "Evicted")
		require.Subset(t, w.events("n"), []string{"EvictionThresholdMet", "NodeHasDiskPressure"})
		for _, e := range apitest.All[*v1.Event](w.api) {
			if e.Reason == "Evicted" {
				require.Equal(t, "ephemeral-storage", e.Annotations["starved_resource"])
			}
		}
		w.put(bound("late", "c"))
		w.Sleep(5 * time.Second)
		require.Equal(t, "Failed Evicted: Pod was rejected: The node had condition: [DiskPressure]. ", w.ended("late"))
		for _, name := range []string{"a", "late", "critical"} {
			w.remove(name)
		}
		w.Sleep(time.Minute)
		w.requireNothingLeft()
	})
}

// N28: a pod over its own limit is evicted alone, and the node is not under pressure.
func TestEvictionOverItsLimit(t *testing.T) {
	inCluster(t, func(w *world) {
		over := bound("over", "c")
		over.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1k"))}}}}
		over.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
		w.put(over, bound("other", "c"))
		w.startFor(5 * time.Second)
		folder, ok := w.agent.volumes.folder(t.Context(), w.agent.in.folders, w.at("over"), "v")
		require.True(t, ok, "%v", w.at("over").Status)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "f"), make([]byte, 64<<10), 0o600))
		w.Sleep(3 * time.Minute)
		require.Equal(t, v1.PodRunning, w.at("other").Status.Phase)
		require.Equal(t, eviction.Pressure{}, w.agent.evictor.Pressure())
		require.Equal(t, `Failed Evicted: Usage of EmptyDir volume "v" exceeds the limit "1k". `, w.ended("over"))
	})
}

// N27: images have a small disk of their own. Unused images are removed if that disk is full, not
// if another one is. If this frees enough space, the pod stays; otherwise it is evicted. Containers
// write to the image disk or to the disk of the pods (KEP-4191).
func TestEvictionOfImages(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root")
	}
	for name, c := range map[string]struct {
		split, frees, nodeIsShort, evicts bool
		removes                           int
	}{
		"enough":            {frees: true, removes: 1},
		"nothing":           {removes: 1, evicts: true},
		"split, of images":  {split: true, frees: true, removes: 1},
		"split, of the pod": {split: true, frees: true, nodeIsShort: true, evicts: true},
	} {
		t.Run(name, func(t *testing.T) {
			disk := t.TempDir()
			require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=4m"))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH)) })
			layer, removed := filepath.Join(disk, "layer"), 0
			cfg := fake.Config{ImageFilesystem: disk, Images: []fake.Image{{Name: "unused"}}, Intercept: func(_ context.Context, call string, _ any) error {
				if call != "RemoveImage" {
					return nil
				}
				if removed++; c.frees {
					return os.Remove(layer)
				}
				return nil
			}}
			if c.split {
				cfg.ContainerFilesystem = t.TempDir()
			}
			inClusterOf(t, cfg, func(w *world) {
				w.put(bound("a", "c"))
				w.configure = func(cfg *Config) {
					cfg.Kubelet.EvictionHard = map[string]string{"imagefs.available": "2Mi"}
					cfg.Kubelet.EvictionPressureTransitionPeriod.Duration = time.Minute
				}
				w.startFor(30 * time.Second)
				require.Zero(t, removed)
				require.NoError(t, os.WriteFile(layer, make([]byte, 3<<20), 0o600))
				if c.nodeIsShort {
					w.stop() // the next agent takes over the running pod
					fullDisk(t, w)
					w.start()
				}
				w.Sleep(30 * time.Second)
				require.Equal(t, c.removes, removed)
				require.Contains(t, w.events("n"), "EvictionThresholdMet")
				require.Contains(t, w.nodeCondition(v1.NodeDiskPressure), "True KubeletHasDiskPressure: ")
				require.Equal(t, c.evicts, w.at("a").Status.Reason == "Evicted", w.ended("a"))
				require.Equal(t, c.evicts, len(w.Running()) == 0)
				if !c.evicts {
					w.Sleep(2 * time.Minute)
					require.Equal(t, v1.PodRunning, w.at("a").Status.Phase)
					require.NotContains(t, w.events("a"), "Evicted")
					require.Contains(t, w.nodeCondition(v1.NodeDiskPressure), "False KubeletHasNoDiskPressure: ")
				}
			})
		})
	}
}
