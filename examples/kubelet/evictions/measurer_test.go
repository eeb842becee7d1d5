package evictions

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/syncloop/eviction"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a node that records the requests for its figures.
type scene struct {
	calls     []string
	available uint64
	failing   map[string]error
	pods      []*v1.Pod
	log       bytes.Buffer
	cfg       Config
	images    string
}

func newScene(hard ...eviction.Threshold) *scene {
	s := &scene{available: 500, failing: map[string]error{}, images: "/"}
	s.cfg = Config{
		Policy: eviction.Policy{Thresholds: hard, LocalStorage: true},
		Stats:  s, Root: "/", Pods: func() []*v1.Pod { return s.pods }, Device: func(dir string) (uint64, error) { return uint64(len(dir)), nil },
		Containers: func(context.Context) ([]*runtimeapi.ContainerStats, error) { return nil, s.note("containers") },
		Images: func(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
			return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: s.images}}}}, s.note("images")
		},
		Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
	}
	return s
}

func (s *scene) note(what string) error {
	s.calls = append(s.calls, what)
	return s.failing[what]
}

func (s *scene) Summary(_ context.Context, part summary.Part) (*statsapi.Summary, error) {
	available, what := s.available, "node"
	out := &statsapi.Summary{Node: statsapi.NodeStats{Memory: &statsapi.MemoryStats{Time: noon, AvailableBytes: &available, WorkingSetBytes: new(1000 - available), UsageBytes: new(1050 - available)}}}
	if part == summary.All {
		what = "all"
		for _, pod := range s.pods {
			out.Pods = append(out.Pods, statsapi.PodStats{PodRef: statsapi.PodReference{UID: string(pod.UID)}, Memory: &statsapi.MemoryStats{WorkingSetBytes: new(uint64(7))}})
		}
	}
	return out, s.note(what)
}

func (s *scene) Storage(_ context.Context, pods []*v1.Pod) map[types.UID]statsapi.PodStats {
	s.calls = append(s.calls, "storage")
	out := map[types.UID]statsapi.PodStats{}
	for _, pod := range pods {
		out[pod.UID] = statsapi.PodStats{VolumeStats: []statsapi.VolumeStats{{Name: "v", FsStats: used(3)}}}
	}
	return out
}

func (s *scene) Files(types.UID) (bytes, inodes uint64) { return 11, 2 }

// measure measures once and returns the requests.
func (s *scene) measure(t *testing.T, m *Measurer) (eviction.Usage, string) {
	t.Helper()
	s.calls = nil
	u, err := m.Measure(t.Context())
	require.NoError(t, err)
	return u, strings.Join(s.calls, " ")
}

func podWith(uid types.UID, edit func(*v1.PodSpec)) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	if edit != nil {
		edit(&pod.Spec)
	}
	return pod
}

func withEmptyDir(p *v1.PodSpec) {
	p.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1"))}}}}
}

func withLimit(p *v1.PodSpec) {
	p.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1")}
}

// Pods are measured only if a threshold is near, or if they have limits of local storage.
func TestMeasureOnlyRequiredParts(t *testing.T) {
	s := newScene(eviction.Threshold{Signal: "memory.available", Value: eviction.Value{Amount: 100}, MinReclaim: eviction.Value{Amount: 50}})
	m, err := NewMeasurer(s.cfg)
	require.NoError(t, err)
	s.pods = []*v1.Pod{podWith("plain", nil)}
	u, asked := s.measure(t, m)
	require.Equal(t, "images node", asked)
	require.Empty(t, u.Pods)
	require.Equal(t, uint64(500), u.Signals["memory.available"].Available)
	_, asked = s.measure(t, m)
	require.Equal(t, "node", asked, "the disk of images stays the same")

	s.pods = append(s.pods, podWith("volume", withEmptyDir))
	u, asked = s.measure(t, m)
	require.Equal(t, "node storage", asked)
	require.Len(t, u.Pods, 1)
	require.Equal(t, map[string]uint64{"v": 3}, u.Pods["volume"].EmptyDirs)
	files := eviction.Disk{Bytes: new(uint64(11)), Inodes: new(uint64(2))}
	require.Equal(t, files, u.Pods["volume"].Files)

	s.pods = append(s.pods, podWith("layers", withLimit))
	u, asked = s.measure(t, m)
	require.Equal(t, "node storage containers", asked)
	require.Len(t, u.Pods, 2)

	s.available = 149 // within the minimum reclaim of the threshold
	u, asked = s.measure(t, m)
	require.Equal(t, "node all", asked)
	require.Len(t, u.Pods, 3)
	require.Equal(t, uint64(7), *u.Pods["plain"].Memory)
	require.Equal(t, files, u.Pods["plain"].Files)

	s.available, m.cfg.Policy.LocalStorage = 500, false
	_, asked = s.measure(t, m)
	require.Equal(t, "node", asked)
}

// A failed measurement skips the pass with an error that names its subject.
func TestMeasureFails(t *testing.T) {
	for what, want := range map[string]string{
		"images": "disk of images: broken", "node": "usage of the node: broken", "all": "usage of the node: broken", "containers": "writable layers of containers: broken",
	} {
		t.Run(what, func(t *testing.T) {
			s := newScene(eviction.Threshold{Signal: "memory.available", Value: eviction.Value{Amount: 100}})
			s.pods = []*v1.Pod{podWith("layers", withLimit)}
			if what == "all" {
				s.available = 99
			}
			s.failing[what] = errors.New("broken")
			m, err := NewMeasurer(s.cfg)
			require.NoError(t, err)
			_, err = m.Measure(t.Context())
			require.EqualError(t, err, want)
			delete(s.failing, what)
			s.measure(t, m)
		})
	}
}

// A threshold that is not below the capacity is ignored, because no eviction could help. It is
// logged once.
func TestThresholdAboveCapacity(t *testing.T) {
	s := newScene(
		eviction.Threshold{Signal: "memory.available", Value: eviction.Value{Amount: 1 << 40}, Grace: time.Minute},
		eviction.Threshold{Signal: "memory.available", Value: eviction.Value{Amount: 1}},
		eviction.Threshold{Signal: "pid.available", Value: eviction.Value{Amount: 1}},
	)
	m, err := NewMeasurer(s.cfg)
	require.NoError(t, err)
	for range 3 {
		u, _ := s.measure(t, m)
		require.Contains(t, u.Signals, eviction.MemoryAvailable, "the other threshold of the signal counts")
		require.NotContains(t, u.Signals, eviction.PIDAvailable)
	}
	require.Equal(t, 1, strings.Count(s.log.String(), "memory.available"))
	require.NotContains(t, s.log.String(), "pid.available")
}

func TestConfigOfMeasurer(t *testing.T) {
	_, err := NewMeasurer(Config{})
	for _, field := range []string{"Stats", "Containers", "Images", "Device", "Pods", "Root"} {
		require.ErrorContains(t, err, "evictions: Config."+field+" is required")
	}
	cfg := newScene().cfg
	cfg.Logger = nil
	_, err = NewMeasurer(cfg)
	require.NoError(t, err)
}
