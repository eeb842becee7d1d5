package evictions

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/labels"
	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/syncloop/eviction"
)

// Stats reports the usage of a node and its pods. summary.Provider implements it.
type Stats interface {
	Summary(ctx context.Context, part summary.Part) (*statsapi.Summary, error)
	// Storage returns the last measured disk usage of pods without the writable layers of
	// containers.
	Storage(ctx context.Context, pods []*v1.Pod) map[types.UID]statsapi.PodStats
	// Files returns the disk usage of /etc/hosts and the termination messages of a pod.
	Files(uid types.UID) (bytes, inodes uint64)
}

// Config configures a Measurer. All but Policy and Logger are required.
type Config struct {
	Policy eviction.Policy
	Stats  Stats
	// Containers returns the runtime's statistics of all containers. Only their writable layers are
	// used.
	Containers func(ctx context.Context) ([]*runtimeapi.ContainerStats, error)
	// Images returns the filesystems of images and containers. It is called until it succeeds once.
	Images func(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
	// Device returns the device number of a folder's filesystem. Use the function Device.
	Device func(dir string) (uint64, error)
	// Root is the agent's folder on the node's filesystem.
	Root string
	// Pods returns the active pods.
	Pods func() []*v1.Pod
	// Logger receives thresholds that are ignored. Default: discard.
	Logger *slog.Logger
}

// Measurer measures a node for evictions. Use NewMeasurer. It is safe for concurrent use.
type Measurer struct {
	cfg Config

	mu         sync.Mutex
	disks      *eviction.Disks // nil: unknown
	impossible []eviction.Threshold
}

// NewMeasurer checks the configuration and returns a Measurer.
func NewMeasurer(cfg Config) (*Measurer, error) {
	f := fields.Of("evictions: Config")
	f.Required("Stats", cfg.Stats)
	f.Required("Containers", cfg.Containers)
	f.Required("Images", cfg.Images)
	f.Required("Device", cfg.Device)
	f.Required("Pods", cfg.Pods)
	f.Required("Root", cfg.Root)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Measurer{cfg: cfg}, nil
}

// Measure measures the node, and pods as far as an eviction decision needs them.
func (m *Measurer) Measure(ctx context.Context) (u eviction.Usage, err error) {
	if u.Disks, err = m.diskLayout(ctx); err != nil {
		return u, err
	}
	s, err := m.summary(ctx, summary.NodeAlone)
	if err != nil {
		return u, err
	}
	pods := m.cfg.Pods()
	if u.Signals = m.signals(s); !m.cfg.Policy.Near(u) {
		u.Pods, err = m.limited(ctx, pods)
		return u, err
	}
	if s, err = m.summary(ctx, summary.All); err != nil {
		return u, err
	}
	stats := make(map[types.UID]*statsapi.PodStats, len(s.Pods))
	for i := range s.Pods {
		stats[types.UID(s.Pods[i].PodRef.UID)] = &s.Pods[i]
	}
	u.Signals, u.Pods = m.signals(s), m.podUsages(pods, stats)
	return u, nil
}

func (m *Measurer) summary(ctx context.Context, part summary.Part) (*statsapi.Summary, error) {
	s, err := m.cfg.Stats.Summary(ctx, part)
	if err != nil {
		return nil, fmt.Errorf("usage of the node: %w", err)
	}
	return s, nil
}

// diskLayout returns the layout of the disks, which does not change while an agent runs.
func (m *Measurer) diskLayout(ctx context.Context) (eviction.Disks, error) {
	m.mu.Lock()
	known := m.disks
	m.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	info, err := m.cfg.Images(ctx)
	if err != nil && !cri.IsUnimplemented(err) {
		return 0, fmt.Errorf("disk of images: %w", err)
	}
	disks, err := DisksOf(m.cfg.Root, info, m.cfg.Device)
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disks = &disks
	return disks, nil
}

func (m *Measurer) signals(s *statsapi.Summary) map[eviction.Signal]eviction.Reading {
	signals := Signals(s)
	none := impossible(m.cfg.Policy, signals)
	m.mu.Lock()
	changed := !slices.Equal(none, m.impossible)
	m.impossible = none
	m.mu.Unlock()
	if changed {
		for _, t := range none {
			m.cfg.Logger.Warn("eviction threshold ignored: it is not below the capacity", "signal", t.Signal, "hard", t.Hard())
		}
	}
	return signals
}

// limited returns the local storage usage of the pods that have limits for it.
func (m *Measurer) limited(ctx context.Context, pods []*v1.Pod) (map[types.UID]eviction.PodUsage, error) {
	if !m.cfg.Policy.LocalStorage {
		return nil, nil
	}
	written := false // writable layers count, too
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool {
		emptyDirs, storage := eviction.LimitsOf(pod)
		written = written || storage
		return !emptyDirs && !storage
	})
	if len(pods) == 0 {
		return nil, nil
	}
	known := m.cfg.Stats.Storage(ctx, pods)
	stats := make(map[types.UID]*statsapi.PodStats, len(known))
	for uid, s := range known {
		stats[uid] = &s
	}
	out := m.podUsages(pods, stats)
	if !written {
		return out, nil
	}
	layers, err := m.cfg.Containers(ctx)
	if err != nil {
		return nil, fmt.Errorf("writable layers of containers: %w", err)
	}
	addLayers(out, layers)
	return out, nil
}

// addLayers adds the sizes of writable layers. If a container has several instances, the newest
// counts.
func addLayers(pods map[types.UID]eviction.PodUsage, layers []*runtimeapi.ContainerStats) {
	layers = slices.Clone(layers)
	slices.SortFunc(layers, func(a, b *runtimeapi.ContainerStats) int {
		return cmp.Compare(a.GetAttributes().GetMetadata().GetAttempt(), b.GetAttributes().GetMetadata().GetAttempt())
	})
	for _, l := range layers {
		of := l.GetAttributes().GetLabels()
		usage, counts := pods[types.UID(of[labels.PodUID])]
		if !counts {
			continue
		}
		name := of[labels.ContainerName]
		c := usage.Containers[name]
		c.Root = eviction.Disk{}
		if used := l.GetWritableLayer().GetUsedBytes(); used != nil {
			c.Root.Bytes = &used.Value
		}
		if used := l.GetWritableLayer().GetInodesUsed(); used != nil {
			c.Root.Inodes = &used.Value
		}
		usage.Containers[name] = c
	}
}
