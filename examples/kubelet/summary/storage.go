package summary

import (
	"context"
	"errors"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/cri/stats"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume/usage"
)

// storage is a pod's disk usage without the writable layers of its containers.
type storage struct {
	volumes []volume
	logs    map[string]usage.Usage // by container
	files   files
}

// files is the usage of the files that the agent makes for a pod.
type files struct{ bytes, inodes uint64 }

type volume struct {
	name  string
	claim string // its PersistentVolumeClaim, or ""
	// local is true for a volume on the node's disk that is deleted with the pod.
	local bool
	usage usage.Usage
}

// measuring is the state of measurements by pod.
type measuring struct {
	group run.Group
	pods  map[types.UID]*measured
}

type measured struct {
	due     time.Time
	seen    bool
	folders map[string]*folder
}

// folder is a measured folder, or one whose measurement is running.
type folder struct {
	running bool
	claim   types.NamespacedName // of a claim's volume, else empty
	log     Log                  // of a container's logs, else empty
}

// scansPerPeriod is the number of scans for due pods in each period.
const scansPerPeriod = 6

// Run measures volumes and logs until ctx is done: those of a new pod at once, then once per
// period. It varies the period by up to 10 %, so that pods do not all become due together. Each
// folder is measured on its own, so a slow or hanging volume does not delay others; its previous
// figures stay, with their time. Figures of a failed measurement become unknown.
func (p *Provider) Run(ctx context.Context) error {
	if p.cfg.Period < 0 {
		<-ctx.Done()
		return nil
	}
	for ok := true; ok; ok = run.Sleep(ctx, p.cfg.Period/scansPerPeriod) {
		p.scan(ctx)
	}
	<-p.measure.group.Idle()
	return nil
}

// scan starts measurements of the pods that are due and forgets removed pods.
func (p *Provider) scan(ctx context.Context) {
	pods, now := p.cfg.Pods(), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.measure.pods {
		m.seen = false
	}
	for _, pod := range pods {
		m := p.measure.pods[pod.UID]
		if m == nil {
			m = &measured{due: now, folders: map[string]*folder{}}
			p.measure.pods[pod.UID] = m
		}
		m.seen = true
		if !now.Before(m.due) {
			m.due = now.Add(time.Duration(float64(p.cfg.Period) * (0.9 + 0.2*rand.Float64())))
			p.begin(ctx, m, p.foldersOf(ctx, pod))
		}
	}
	for uid, m := range p.measure.pods {
		if m.seen {
			continue
		}
		if p.forget(m, nil); len(m.folders) == 0 {
			delete(p.measure.pods, uid)
		}
	}
}

// begin starts measurements of a pod's folders, except those still running.
func (p *Provider) begin(ctx context.Context, m *measured, folders map[string]*folder) {
	p.forget(m, folders)
	for dir, f := range folders {
		if known := m.folders[dir]; known != nil && known.running {
			continue
		}
		m.folders[dir] = f
		f.running = true
		p.measure.group.Go(dir, func() {
			p.measureFolder(ctx, dir)
			p.mu.Lock()
			defer p.mu.Unlock()
			f.running = false
		})
	}
}

// forget drops the figures of folders that the pod no longer has.
func (p *Provider) forget(m *measured, folders map[string]*folder) {
	for dir, f := range m.folders {
		if !f.running && folders[dir] == nil {
			delete(m.folders, dir)
			p.cfg.Meter.Forget(dir)
		}
	}
}

func (p *Provider) measureFolder(ctx context.Context, dir string) {
	_, err := p.cfg.Meter.Measure(ctx, dir, 0)
	if err == nil || ctx.Err() != nil || errors.Is(err, fs.ErrMoved) { // containers move files all the time: the figures stay
		return
	}
	p.cfg.Meter.Forget(dir)
	if !errors.Is(err, iofs.ErrNotExist) { // a missing folder is not logged
		p.cfg.Logger.Debug("cannot measure a volume or log", "folder", dir, "err", err)
	}
}

func (p *Provider) foldersOf(ctx context.Context, pod *v1.Pod) map[string]*folder {
	out := map[string]*folder{}
	p.folders(ctx, pod, func(v *v1.Volume, dir string) {
		f := &folder{}
		if name := claim(pod, v); name != "" {
			f.claim = types.NamespacedName{Namespace: pod.Namespace, Name: name}
		}
		out[dir] = f
	})
	for c := range podfacts.Containers(pod) {
		dir := filepath.Join(p.cfg.LogDir(pod.Namespace, pod.Name, pod.UID), c.Name)
		out[dir] = &folder{log: Log{UID: pod.UID, Namespace: pod.Namespace, Pod: pod.Name, Container: c.Name}}
	}
	return out
}

// folders calls f for each volume that counts as the pod's, with its folder. hostPath and image
// volumes do not count.
func (p *Provider) folders(ctx context.Context, pod *v1.Pod, f func(v *v1.Volume, dir string)) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.HostPath != nil || v.Image != nil {
			continue
		}
		if dir, ok := p.cfg.Volume(ctx, pod, v.Name); ok {
			f(v, dir)
		}
	}
}

// lastMeasured returns the last measurements of pods. It reads no volume.
func (p *Provider) lastMeasured(ctx context.Context, seen []stats.Pod) map[types.UID]storage {
	out := make(map[types.UID]storage, len(seen))
	for _, s := range seen {
		uid := types.UID(s.UID)
		have := storage{logs: map[string]usage.Usage{}, files: p.files(uid)}
		for _, c := range s.Containers {
			if u, ok := p.cfg.Meter.Known(filepath.Join(p.cfg.LogDir(s.Namespace, s.Name, uid), c.Name)); ok {
				have.logs[c.Name] = u
			}
		}
		out[uid] = have
	}
	for _, pod := range p.cfg.Pods() {
		have, ok := out[pod.UID]
		if !ok {
			continue
		}
		p.folders(ctx, pod, func(v *v1.Volume, dir string) {
			if u, ok := p.cfg.Meter.Known(dir); ok {
				have.volumes = append(have.volumes, volume{name: v.Name, claim: claim(pod, v), local: Local(v), usage: u})
			}
		})
		out[pod.UID] = have
	}
	return out
}

// Storage returns the last measured disk usage of pods by UID, without the writable layers of their
// containers. It reads no volume and makes no calls.
func (p *Provider) Storage(ctx context.Context, pods []*v1.Pod) map[types.UID]statsapi.PodStats {
	seen := make([]stats.Pod, len(pods))
	for i, pod := range pods {
		seen[i] = stats.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
		for c := range podfacts.Containers(pod) {
			seen[i].Containers = append(seen[i].Containers, stats.Container{Name: c.Name})
		}
	}
	in := &reading{part: All, at: time.Now(), pods: seen, storage: p.lastMeasured(ctx, seen)}
	out := make(map[types.UID]statsapi.PodStats, len(pods))
	for i := range in.pods {
		out[types.UID(in.pods[i].UID)] = in.pod(&in.pods[i])
	}
	return out
}

// Files returns the disk usage of the files that the agent makes for a pod, and that containers
// can fill: /etc/hosts and the termination messages of all instances.
func (p *Provider) Files(uid types.UID) (bytes, inodes uint64) {
	f := p.files(uid)
	return f.bytes, f.inodes
}

func (p *Provider) files(uid types.UID) (sum files) {
	if p.cfg.PodDir == nil {
		return files{}
	}
	dir := p.cfg.PodDir(uid)
	add := func(path string) {
		var is unix.Stat_t
		if err := unix.Lstat(path, &is); err == nil {
			sum.bytes, sum.inodes = sum.bytes+uint64(is.Blocks)*blockSize, sum.inodes+1
		}
	}
	add(filepath.Join(dir, "etc-hosts"))
	containers, _ := os.ReadDir(filepath.Join(dir, "containers")) // missing without containers
	for _, c := range containers {
		messages, _ := os.ReadDir(filepath.Join(dir, "containers", c.Name())) // removed meanwhile
		for _, m := range messages {
			add(filepath.Join(dir, "containers", c.Name(), m.Name()))
		}
	}
	return sum
}

// blockSize is the unit of Stat_t.Blocks in bytes.
const blockSize = 512

// claim returns the name of the volume's PersistentVolumeClaim, or "".
func claim(pod *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// Local reports whether a volume is on the node's disk and is deleted with its pod. As upstream,
// volumes with API objects other than ConfigMaps count as in memory.
func Local(v *v1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault || v.ConfigMap != nil
}

// claimRef returns nil without a claim.
func (v *volume) claimRef(namespace string) *statsapi.PVCReference {
	if v.claim == "" {
		return nil
	}
	return &statsapi.PVCReference{Name: v.claim, Namespace: namespace}
}
