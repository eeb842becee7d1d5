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

// Config configures a Provider. NodeName, Collector, Proc, Root, Pods, Volume, LogDir and
// Meter are required.
type Config struct {
	NodeName string
	// Collector collects what pods use.
	Collector *stats.Collector
	// Cgroups reads those of the machine; nil: there are none to read.
	Cgroups *stats.Reader
	// Proc is the machine's /proc.
	Proc fs.FS
	// Root is the agent's folder, on the node's file system.
	Root string
	// Images tells of the file systems of images and containers; nil: they are not known.
	Images func(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
	// Systems are the cgroups of what is told as a system container, by its name
	// (statsapi.SystemContainerPods and the like).
	Systems map[string]string
	// Above are cgroups that /metrics/cadvisor has besides the root, those of Systems and of
	// pods.
	Above []string
	// Machine names the machine; its fields may be empty.
	Machine Machine

	// Pods are those that are on the node, from memory.
	Pods func() []*v1.Pod
	// Volume is the folder of a pod's volume, from memory; false for one that is not mounted,
	// or has none.
	Volume func(ctx context.Context, pod *v1.Pod, name string) (dir string, ok bool)
	// LogDir is the folder with the logs of a pod, in a folder for each container.
	LogDir func(namespace, name string, uid types.UID) string
	// HostsFile is a pod's /etc/hosts; nil or empty: it has none of its own.
	HostsFile func(uid types.UID) string
	// Meter measures folders.
	Meter *usage.Meter
	// Period is how often volumes and logs are measured (volumeStatsAggPeriod); zero means
	// 1 min, and below zero never.
	Period time.Duration
	// Logger is told what could not be read. nil means none.
	Logger *slog.Logger
}

// Machine are names of a machine, as labels of metrics.
type Machine struct{ BootID, MachineID, SystemUUID, Kernel, OS string }

// Provider tells what the node and its pods use. Use New. It is safe for concurrent use.
type Provider struct {
	cfg     Config
	figures []figure

	mu      sync.Mutex
	rates   stats.Rates       // of the node and of system containers
	unread  map[string]string // what was logged last, by what was asked for
	measure measuring
}

// New checks the configuration.
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

// Part is how much of a Summary is wanted.
type Part int

// The parts.
const (
	// All is everything.
	All Part = iota
	// CPUAndMemory is the use of processors, memory and swap, which asks the runtime for
	// nothing but lists.
	CPUAndMemory
	// NodeAlone is the node with its disks and processes, and of system containers that of
	// all pods: without a pod, a network or a rate. It costs little.
	NodeAlone
)

// Summary reads what the node and its pods use. What cannot be read is left out, and
// logged; the error is that of the runtime's lists, or of /proc.
func (p *Provider) Summary(ctx context.Context, part Part) (*statsapi.Summary, error) {
	in, err := p.read(ctx, part, stats.Wanted{Storage: part == All, Network: part == All})
	if err != nil {
		return nil, err
	}
	p.tell(fmt.Sprint("summary ", part), in.unread)
	if part == All {
		in.storage = p.known(ctx, in.pods)
	}
	return build(in), nil
}

// reading is all that a Summary is made of.
type reading struct {
	part    Part
	name    string
	node    stats.Usage
	cores   *uint64
	machine stats.Machine
	network *stats.Network
	// disk is the node's file system.
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

// system is a system container.
type system struct {
	name, cgroup string
	created      time.Time
	usage        stats.Usage
	cores        *uint64
}

func (p *Provider) read(ctx context.Context, part Part, w stats.Wanted) (*reading, error) {
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

// readSystems reads the cgroups of system containers. One that is not there is left out.
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

// readRest reads what is not needed for processors and memory.
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
			in.containers = in.images // of runtimes that know of no other
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

// filesystem completes what the runtime says of one with what the kernel does.
func (in *reading) filesystem(told *runtimeapi.FilesystemUsage) *stats.Filesystem {
	f := stats.FilesystemOf(told)
	if f == nil {
		return nil
	}
	return with(in.onDisk(f.Mountpoint), f)
}

// onDisk is what the kernel says of a file system that a runtime has named; nil if the
// runtime has another root, or is on another machine.
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

// writable completes the layers of containers.
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

// tell logs what could not be read, when that changes for what was asked for.
func (p *Provider) tell(asked string, unread []error) {
	err := errors.Join(unread...)
	text := ""
	if err != nil {
		text = err.Error()
	}
	p.mu.Lock()
	changed := text != p.unread[asked]
	p.unread[asked] = text
	p.mu.Unlock()
	if changed && err != nil {
		p.cfg.Logger.Warn("not all that pods use can be read", "err", err)
	}
}
