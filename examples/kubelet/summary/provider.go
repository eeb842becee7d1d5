package summary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/cri/stats"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/volume/usage"
)

// Config configures a Provider. NodeName, Collector, Proc, Root, Pods, Volume, LogDir and Meter are
// required.
type Config struct {
	NodeName string
	// Collector collects the usage of pods.
	Collector *stats.Collector
	// Cgroups reads the machine's cgroups. Optional: without it there are no system containers.
	Cgroups *stats.Reader
	Proc    fs.FS
	// Root is the agent's folder on the node's filesystem.
	Root string
	// Images returns the usage of the image and container filesystems. Optional: without it they
	// are left out.
	Images func(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
	// Systems maps names of system containers (statsapi.SystemContainerPods and the like) to their
	// cgroups.
	Systems map[string]string
	// Above are further cgroups for /metrics/cadvisor, besides the root and those of Systems and of
	// pods.
	Above []string
	// Machine has labels of the machine. Its fields may be empty.
	Machine Machine

	// Pods returns the pods of the node. It must not block.
	Pods func() []*v1.Pod
	// Volume returns the folder of a pod's volume, or false if it is not mounted or has no folder.
	// It must not block.
	Volume func(ctx context.Context, pod *v1.Pod, name string) (dir string, ok bool)
	// LogDir returns the folder of a pod's logs, which has a subfolder for each container.
	LogDir func(namespace, name string, uid types.UID) string
	// PodDir returns the agent's folder of a pod, with the files that containers can fill:
	// etc-hosts, and a termination message of each instance at containers/NAME/INSTANCE. Optional:
	// without it they do not count.
	PodDir func(uid types.UID) string
	Meter  *usage.Meter
	// Period is the period of measurements of volumes and logs (volumeStatsAggPeriod). Default: 1
	// min. A negative period disables them.
	Period time.Duration
	// Logger receives read errors. Default: discard.
	Logger *slog.Logger
}

// Machine has names of a machine, used as labels of metrics.
type Machine struct{ BootID, MachineID, SystemUUID, Kernel, OS string }

// Provider reports the resource usage of a node and its pods. Use New. It is safe for concurrent
// use.
type Provider struct {
	cfg     Config
	figures []figure

	mu      sync.Mutex
	rates   stats.Rates       // of the node and of system containers
	unread  map[string]string // the last logged errors, by kind of request
	measure measuring
}

// New checks the configuration and returns a Provider.
func New(cfg Config) (*Provider, error) {
	f := fields.Of("summary: Config")
	f.Required("NodeName", cfg.NodeName)
	f.Required("Root", cfg.Root)
	f.Required("Collector", cfg.Collector)
	f.Required("Proc", cfg.Proc)
	f.Required("Pods", cfg.Pods)
	f.Required("Volume", cfg.Volume)
	f.Required("LogDir", cfg.LogDir)
	f.Required("Meter", cfg.Meter)
	fields.Default(&cfg.Period, time.Minute)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Provider{cfg: cfg, figures: figures(), unread: map[string]string{}, measure: measuring{pods: map[types.UID]*measured{}}}, nil
}

// Part selects the content of a Summary.
type Part int

// Parts of a Summary.
const (
	// All selects all parts.
	All Part = iota
	// CPUAndMemory selects the usage of CPU, memory and swap. It needs only list calls to the
	// runtime.
	CPUAndMemory
	// NodeAlone selects the node with its disks and processes, and the system container of all
	// pods. It has no pods, networks and rates, and is cheap.
	NodeAlone
)

// Summary reads the resource usage of the node and its pods. It leaves out and logs figures that it
// cannot read. It fails only if the runtime's lists or /proc cannot be read.
func (p *Provider) Summary(ctx context.Context, part Part) (*statsapi.Summary, error) {
	in, err := p.read(ctx, part, stats.CollectOptions{Storage: part == All, Network: part == All})
	if err != nil {
		return nil, err
	}
	p.logUnread(fmt.Sprint("summary ", part), in.unread)
	if part == All {
		in.storage = p.lastMeasured(ctx, in.pods)
	}
	return build(in), nil
}

type reading struct {
	part               Part
	name               string
	node               stats.Usage
	cores              *uint64
	machine            stats.Machine
	network            *stats.Network
	disk               *stats.Filesystem
	images, containers *stats.Filesystem
	maxProcesses, runs *uint64
	systems            []system
	pods               []stats.Pod
	storage            map[types.UID]storage
	at                 time.Time
	unread             []error
	devices            map[string]string // by folder
	names              deviceNames
	topology           stats.Topology
}

type system struct {
	name, cgroup string
	created      time.Time
	usage        stats.Usage
	cores        *uint64
}

func (p *Provider) read(ctx context.Context, part Part, w stats.CollectOptions) (*reading, error) {
	in := &reading{part: part, name: p.cfg.NodeName, at: time.Now(), names: deviceNames{}}
	var err error
	if part != NodeAlone {
		if in.pods, in.unread, err = p.cfg.Collector.Collect(ctx, w); err != nil {
			return nil, err
		}
	}
	if in.node, in.machine, err = stats.ReadMachineUsage(p.cfg.Cgroups, p.cfg.Proc); err != nil {
		return nil, err
	}
	in.note(in.machine.Unread...)
	in.note(in.node.Unread...)
	p.readSystems(in)
	if part != NodeAlone {
		p.rate(in)
	}
	if part == All {
		p.readNetwork(in)
	}
	if part != CPUAndMemory {
		p.readRest(ctx, in)
	}
	return in, nil
}

func (in *reading) note(errs ...error) { in.unread = append(in.unread, errs...) }

// readSystems reads the cgroups of system containers. It leaves out missing ones.
func (p *Provider) readSystems(in *reading) {
	if p.cfg.Cgroups == nil {
		return
	}
	for _, name := range []string{statsapi.SystemContainerKubelet, statsapi.SystemContainerRuntime, statsapi.SystemContainerMisc, statsapi.SystemContainerPods} {
		cgroup := p.cfg.Systems[name]
		if cgroup == "" || in.part == NodeAlone && name != statsapi.SystemContainerPods {
			continue
		}
		u, err := p.cfg.Cgroups.Read(cgroup)
		if err != nil {
			in.note(err)
			continue
		}
		in.note(u.Unread...)
		created, err := p.cfg.Cgroups.Created(cgroup)
		if err != nil {
			in.note(err)
		}
		in.systems = append(in.systems, system{name: name, cgroup: cgroup, created: created, usage: u})
	}
}

func (p *Provider) rate(in *reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in.cores = p.rates.Of("", in.node)
	for i := range in.systems {
		in.systems[i].cores = p.rates.Of(in.systems[i].name, in.systems[i].usage)
	}
}

func (p *Provider) readNetwork(in *reading) {
	var err error
	if in.network, err = stats.ReadNetwork(p.cfg.Proc, "self"); err != nil {
		in.note(err)
	}
	in.topology = stats.ReadTopology(p.cfg.Proc)
}

// readRest reads the disks and processes of the node.
func (p *Provider) readRest(ctx context.Context, in *reading) {
	var err error
	if in.disk, err = disk(p.cfg.Root); err != nil {
		in.note(err)
	}
	if in.maxProcesses, in.runs, err = stats.ReadProcesses(p.cfg.Proc); err != nil {
		in.note(err)
	}
	if p.cfg.Images != nil {
		info, err := p.cfg.Images(ctx)
		if err != nil {
			in.note(err)
		}
		in.images = in.filesystem(first(info.GetImageFilesystems()))
		if in.containers = in.filesystem(first(info.GetContainerFilesystems())); in.containers == nil {
			in.containers = in.images // the runtime does not report a separate one
		}
	}
	in.writable()
}

func first(list []*runtimeapi.FilesystemUsage) *runtimeapi.FilesystemUsage {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// filesystem converts usage reported by the runtime and adds the kernel's capacity.
func (in *reading) filesystem(usage *runtimeapi.FilesystemUsage) *stats.Filesystem {
	f := stats.FilesystemOf(usage)
	if f == nil {
		return nil
	}
	return with(in.onDisk(f.Mountpoint), f)
}

// onDisk returns the kernel's figures of a filesystem that the runtime reported, or nil if the
// mount point does not exist here: the runtime may have another root or machine.
func (in *reading) onDisk(mountpoint string) *stats.Filesystem {
	if mountpoint == "" {
		return nil
	}
	on, err := disk(mountpoint)
	if err != nil {
		in.note(err)
	}
	return on
}

// writable adds the capacity to the containers' writable layers.
func (in *reading) writable() {
	disks := map[string]*stats.Filesystem{}
	for i := range in.pods {
		for k := range in.pods[i].Containers {
			c := &in.pods[i].Containers[k]
			if c.Writable == nil {
				continue
			}
			on, seen := disks[c.Writable.Mountpoint]
			if !seen {
				on = in.onDisk(c.Writable.Mountpoint)
				disks[c.Writable.Mountpoint] = on
			}
			c.Writable = with(on, c.Writable)
		}
	}
}

// logUnread logs the read errors of a kind of request when they change.
func (p *Provider) logUnread(request string, unread []error) {
	err := errors.Join(unread...)
	text := ""
	if err != nil {
		text = err.Error()
	}
	p.mu.Lock()
	changed := text != p.unread[request]
	p.unread[request] = text
	p.mu.Unlock()
	if changed && err != nil {
		p.cfg.Logger.Warn("cannot read all usage of pods", "err", err)
	}
}
