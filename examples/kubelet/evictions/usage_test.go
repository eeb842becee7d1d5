package evictions

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/syncloop/eviction"
)

var noon = metav1.NewTime(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))

func filesystem(available, inodes uint64) *statsapi.FsStats {
	return &statsapi.FsStats{Time: noon, AvailableBytes: &available, CapacityBytes: new(uint64(1000)), InodesFree: &inodes, Inodes: new(uint64(100))}
}

func TestSignals(t *testing.T) {
	require.Empty(t, Signals(&statsapi.Summary{}), "missing figures are unknown")
	require.Empty(t, Signals(&statsapi.Summary{Node: statsapi.NodeStats{
		Memory: &statsapi.MemoryStats{Time: noon, WorkingSetBytes: new(uint64(1))}, Fs: &statsapi.FsStats{Time: noon, AvailableBytes: new(uint64(1))},
		Runtime: &statsapi.RuntimeStats{}, Rlimit: &statsapi.RlimitStats{Time: noon, MaxPID: new(int64(5))},
		SystemContainers: []statsapi.ContainerStats{{Name: "pods"}},
	}}))
	memory := func(available uint64) *statsapi.MemoryStats {
		return &statsapi.MemoryStats{Time: noon, AvailableBytes: &available, WorkingSetBytes: new(uint64(30))}
	}
	reading := func(available, capacity uint64) eviction.Reading {
		return eviction.Reading{Available: available, Capacity: capacity, Time: noon.Time}
	}
	require.Equal(t, map[eviction.Signal]eviction.Reading{
		"memory.available": reading(70, 100), "allocatableMemory.available": reading(20, 50),
		"nodefs.available": reading(1, 1000), "nodefs.inodesFree": reading(2, 100), "imagefs.available": reading(3, 1000), "imagefs.inodesFree": reading(4, 100),
		"containerfs.available": reading(5, 1000), "containerfs.inodesFree": reading(6, 100), "pid.available": reading(0, 40),
	}, Signals(&statsapi.Summary{Node: statsapi.NodeStats{
		Memory: memory(70), SystemContainers: []statsapi.ContainerStats{{Name: "kubelet", Memory: memory(1)}, {Name: "pods", Memory: memory(20)}},
		Fs: filesystem(1, 2), Runtime: &statsapi.RuntimeStats{ImageFs: filesystem(3, 4), ContainerFs: filesystem(5, 6)},
		Rlimit: &statsapi.RlimitStats{Time: noon, MaxPID: new(int64(40)), NumOfRunningProcesses: new(int64(41))},
	}}))
}

func used(n uint64) statsapi.FsStats {
	return statsapi.FsStats{Time: noon, UsedBytes: &n, InodesUsed: new(n + 1)}
}

func TestPodUsage(t *testing.T) {
	volume := func(name string, s v1.VolumeSource) v1.Volume { return v1.Volume{Name: name, VolumeSource: s} }
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{
		volume("disk", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), volume("memory", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}),
		volume("config", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}), volume("claim", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}),
		volume("unmeasured", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
		volume("huge", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumHugePages}}),
	}}}
	s := &statsapi.PodStats{
		Memory: &statsapi.MemoryStats{WorkingSetBytes: new(uint64(9))}, ProcessStats: &statsapi.ProcessStats{ProcessCount: new(uint64(8))},
		Containers: []statsapi.ContainerStats{
			{Name: "a", Memory: &statsapi.MemoryStats{WorkingSetBytes: new(uint64(5))}, Rootfs: new(used(10)), Logs: new(used(20))}, {Name: "b"},
		},
		VolumeStats: []statsapi.VolumeStats{
			{Name: "disk", FsStats: used(100)}, {Name: "memory", FsStats: used(200)}, {Name: "config", FsStats: used(400)}, {Name: "claim", FsStats: used(800)}, {Name: "huge", FsStats: used(3200)}, {Name: "unmeasured"}, {Name: "stranger", FsStats: used(1600)},
		},
	}
	at := func(n uint64) eviction.Disk { return eviction.Disk{Bytes: &n, Inodes: new(n + 1)} }
	require.Equal(t, eviction.PodUsage{
		Memory: new(uint64(9)), Processes: new(uint64(8)),
		Volumes:    eviction.Disk{Bytes: new(uint64(500)), Inodes: new(uint64(502))},
		EmptyDirs:  map[string]uint64{"disk": 100, "memory": 200, "huge": 3200},
		Containers: map[string]eviction.ContainerUsage{"a": {Memory: new(uint64(5)), Root: at(10), Logs: at(20)}, "b": {}},
	}, PodUsage(pod, s))
	require.Equal(t, eviction.PodUsage{EmptyDirs: map[string]uint64{}, Containers: map[string]eviction.ContainerUsage{}}, PodUsage(pod, &statsapi.PodStats{}))
}

func TestDisksOf(t *testing.T) {
	on := map[string]uint64{"/root": 1, "/same": 1, "/images": 2, "/elsewhere": 3}
	device := func(dir string) (uint64, error) {
		if dir == "/broken" {
			return 0, errors.New("broken")
		}
		n, ok := on[dir]
		if !ok {
			return 0, &fs.PathError{Op: "stat", Path: dir, Err: fs.ErrNotExist}
		}
		return n, nil
	}
	at := func(dirs ...string) (out []*runtimeapi.FilesystemUsage) {
		for _, dir := range dirs {
			out = append(out, &runtimeapi.FilesystemUsage{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: dir}})
		}
		return out
	}
	for name, c := range map[string]struct {
		images, containers []*runtimeapi.FilesystemUsage
		want               eviction.Disks
		err                string
	}{
		"no response":             {nil, nil, eviction.OneDisk, ""},
		"no place":                {at(""), at(""), eviction.OneDisk, ""},
		"one":                     {at("/same"), at("/same"), eviction.OneDisk, ""},
		"images":                  {at("/images"), at("/images"), eviction.ImageDisk, ""},
		"images, old runtime":     {at("/images"), nil, eviction.ImageDisk, ""},
		"split":                   {at("/images"), at("/same"), eviction.SplitDisk, ""},
		"three":                   {at("/images"), at("/elsewhere"), eviction.ImageDisk, ""},
		"another machine":         {at("/none"), at("/none"), eviction.ImageDisk, ""},
		"images not readable":     {at("/broken"), nil, 0, "disk of images: broken"},
		"containers not readable": {at("/images"), at("/broken"), 0, "disk of containers: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DisksOf("/root", &runtimeapi.ImageFsInfoResponse{ImageFilesystems: c.images, ContainerFilesystems: c.containers}, device)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := DisksOf("/none", nil, device)
	require.ErrorIs(t, err, fs.ErrNotExist)
	here, err := Device(t.TempDir())
	require.NoError(t, err)
	require.NotZero(t, here)
	_, err = Device("/no/such/folder")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestLayers(t *testing.T) {
	layer := func(uid, name string, attempt uint32, n uint64) *runtimeapi.ContainerStats {
		return &runtimeapi.ContainerStats{
			Attributes:    &runtimeapi.ContainerAttributes{Metadata: &runtimeapi.ContainerMetadata{Attempt: attempt}, Labels: map[string]string{"io.kubernetes.pod.uid": uid, "io.kubernetes.container.name": name}},
			WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: &runtimeapi.UInt64Value{Value: n}},
		}
	}
	logs := eviction.Disk{Bytes: new(uint64(7))}
	pods := map[types.UID]eviction.PodUsage{"1": {Containers: map[string]eviction.ContainerUsage{"a": {Logs: logs}}}}
	addLayers(pods, []*runtimeapi.ContainerStats{layer("1", "a", 2, 20), layer("1", "a", 1, 10), layer("2", "a", 0, 30), {}})
	require.Equal(t, map[types.UID]eviction.PodUsage{"1": {Containers: map[string]eviction.ContainerUsage{"a": {Logs: logs, Root: eviction.Disk{Bytes: new(uint64(20))}}}}}, pods)
}
