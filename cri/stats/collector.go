package stats

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/fields"
)

// Runtime is the part of cri.RuntimeService that a Collector uses.
type Runtime interface {
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
	ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
	ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
}

// CollectorConfig configures a Collector. Runtime and Owner are required.
type CollectorConfig struct {
	Runtime Runtime
	// Owner owns the pods to measure.
	Owner cri.Owner
	// Reader reads cgroups. Optional: without it all figures come from the runtime.
	Reader *Reader
	// PodCgroups returns the paths of the pods' cgroups by pod UID. The cgroups of a pod's
	// containers are below its own (cgroup_parent). Required with Reader.
	PodCgroups func() map[string]string
	// Proc is the machine's /proc, for the networks of pods that the Reader reads. It must support
	// links, as os.DirFS does. Optional: without it network figures come from the runtime.
	Proc fs.FS
}

// Collector measures the resource usage of pods on demand. Use NewCollector. It is safe for
// concurrent use.
type Collector struct {
	cfg CollectorConfig

	mu    sync.Mutex
	rates Rates
	names map[string]string // of the cgroups of containers and sandboxes, by ID; they never change

	storageLock chan struct{} // locks storage and its time
	storage     []*runtimeapi.ContainerStats
	asked       time.Time
}

// storageAge is the greatest age of filesystem usage. containerd measures at this period.
const storageAge = 10 * time.Second

// NewCollector checks the configuration and returns a Collector.
func NewCollector(cfg CollectorConfig) (*Collector, error) {
	f := fields.Of("stats: CollectorConfig")
	f.Required("Runtime", cfg.Runtime)
	f.Checked(cfg.Owner.Check())
	if cfg.Reader != nil && cfg.PodCgroups == nil {
		f.Refuse("PodCgroups is required with Reader")
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Collector{cfg: cfg, names: map[string]string{}, storageLock: make(chan struct{}, 1)}, nil
}

// CollectOptions selects figures besides CPU and memory.
type CollectOptions struct {
	// Storage selects the writable layers of containers.
	Storage bool
	// Network selects the networks of pods.
	Network bool
	// Details selects the details of cgroups.
	Details bool
}

// Collect returns the resource usage of all running pods. It fails if the runtime cannot list
// sandboxes or containers. Figures of other failed calls and reads are missing; unread has the
// errors.
//
// A pod with a cgroup and its containers are read from the cgroups. The runtime measures only the
// remaining pods, and storage, because it uses a process per container to read the same files. CPU
// rates come from two calls at least one second apart, and before that from the runtime.
func (c *Collector) Collect(ctx context.Context, w CollectOptions) (pods []Pod, unread []error, err error) {
	sandboxes, err := c.cfg.Runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	containers, err := c.cfg.Runtime.ListContainers(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	pods = Running(c.cfg.Owner.Sandboxes(sandboxes), c.cfg.Owner.Containers(containers))
	var cgroups map[string]string
	if c.cfg.Reader != nil {
		cgroups = c.cfg.PodCgroups()
	}
	request := runtimeWants{storage: w.Storage, pods: w.Network && c.cfg.Proc == nil && len(pods) > 0}
	for i := range pods {
		unread = append(unread, c.read(&pods[i], cgroups[pods[i].UID], w)...)
		request.add(&pods[i])
	}
	mine, theirs, errs := c.request(ctx, request)
	Merge(pods, mine, theirs)
	c.rate(pods)
	return pods, append(unread, errs...), nil
}

// runtimeWants selects figures that only the runtime has.
type runtimeWants struct{ containers, pods, storage bool }

func (a *runtimeWants) add(p *Pod) {
	a.pods = a.pods || p.Cgroup == ""
	for i := range p.Containers {
		a.containers = a.containers || p.Cgroup != "" && p.Containers[i].Cgroup == ""
	}
}

// request requests the figures from the runtime. An unimplemented call is no error.
func (c *Collector) request(ctx context.Context, a runtimeWants) (containers []*runtimeapi.ContainerStats, pods []*runtimeapi.PodSandboxStats, errs []error) {
	note := func(err error) {
		if err != nil && !cri.IsUnimplemented(err) {
			errs = append(errs, err)
		}
	}
	var err error
	if a.pods {
		pods, err = c.cfg.Runtime.ListPodSandboxStats(ctx, nil)
		note(err)
		a.containers = a.containers || err != nil
	}
	switch {
	case a.containers:
		containers, err = c.cfg.Runtime.ListContainerStats(ctx, nil)
		note(err)
	case a.storage:
		containers, err = c.writable(ctx)
		note(err)
	}
	return containers, pods, errs
}

// writable returns the runtime's storage figures, at most storageAge old. It clears CPU and memory,
// which may be too old.
func (c *Collector) writable(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
	select {
	case c.storageLock <- struct{}{}:
		defer func() { <-c.storageLock }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if time.Since(c.asked) < storageAge {
		return c.storage, nil
	}
	now := time.Now()
	list, err := c.cfg.Runtime.ListContainerStats(ctx, nil)
	if err != nil {
		return nil, err
	}
	c.storage, c.asked = make([]*runtimeapi.ContainerStats, len(list)), now
	for i, s := range list {
		c.storage[i] = &runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{Id: s.GetAttributes().GetId()}, WritableLayer: s.GetWritableLayer()}
	}
	return c.storage, nil
}

// read reads a pod's cgroups. It skips cgroups that are missing or end meanwhile. It ignores a pod
// cgroup without any container of the pod: the pod was started outside of it.
func (c *Collector) read(p *Pod, cgroup string, w CollectOptions) (unread []error) {
	if cgroup == "" {
		return nil
	}
	names, err := c.find(p, cgroup)
	if err != nil {
		return ignoreNotFound(err)
	}
	for i := range p.Containers {
		k := &p.Containers[i]
		name := names[k.ID]
		if name == "" {
			continue
		}
		p.Cgroup = cgroup
		u, d, err := c.cgroup(cgroup+"/"+name, w)
		if err != nil {
			continue // it has ended
		}
		k.Usage, k.Details, k.Cgroup, unread = u, d, cgroup+"/"+name, append(unread, u.Unread...)
	}
	if p.Cgroup == "" {
		return unread
	}
	if p.Usage, p.Details, err = c.cgroup(cgroup, w); err != nil {
		p.Cgroup = ""
		return unread
	}
	return slices.Concat(unread, p.Usage.Unread, c.readSandbox(p, names[p.Sandbox], w))
}

// find returns the names of the cgroups of a pod's sandbox and containers, by ID. It lists the
// pod's cgroup only to find a new name, because a listing takes as long as reading four files.
func (c *Collector) find(p *Pod, cgroup string) (map[string]string, error) {
	ids := []string{p.Sandbox}
	for i := range p.Containers {
		ids = append(ids, p.Containers[i].ID)
	}
	found := make(map[string]string, len(ids))
	c.mu.Lock()
	for _, id := range ids {
		if name := c.names[id]; name != "" {
			found[id] = name
		}
	}
	c.mu.Unlock()
	if len(found) == len(ids) {
		return found, nil
	}
	names, err := c.cfg.Reader.Children(cgroup)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if name := cgroupOf(names, id); name != "" {
			found[id], c.names[id] = name, name
		}
	}
	return found, err
}

func (c *Collector) readSandbox(p *Pod, name string, w CollectOptions) []error {
	if name != "" {
		p.SandboxCgroup = p.Cgroup + "/" + name
	}
	if !w.Network {
		return nil
	}
	network, err := c.network(p)
	p.Network = network
	return ignoreNotFound(err)
}

// ignoreNotFound returns err, or nil if err means that the object has ended.
func ignoreNotFound(err error) []error {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return []error{err}
}

func (c *Collector) cgroup(cgroup string, w CollectOptions) (Usage, *Details, error) {
	if !w.Details {
		u, err := c.cfg.Reader.Read(cgroup)
		return u, nil, err
	}
	d, err := c.cfg.Reader.Details(cgroup)
	if err != nil {
		return Usage{}, nil, err
	}
	return d.Usage, &d, nil
}

// cgroupOf returns the name of a container's cgroup. Runtimes use the container's ID, some with
// their own name as a prefix, and with systemd the suffix ".scope".
func cgroupOf(names []string, id string) string {
	for _, name := range names {
		bare := strings.TrimSuffix(name, ".scope")
		if bare == id || strings.HasSuffix(bare, "-"+id) && !strings.Contains(bare, "conmon") {
			return name
		}
	}
	return ""
}

// network returns the pod's network, or nil if it is the machine's. It reads it through the
// sandbox's process, which lives as long as the network, or else through a container's process.
func (c *Collector) network(p *Pod) (*Network, error) {
	if c.cfg.Proc == nil {
		return nil, nil
	}
	cgroups := []string{p.SandboxCgroup}
	for i := range p.Containers {
		cgroups = append(cgroups, p.Containers[i].Cgroup)
	}
	for _, cgroup := range cgroups {
		if cgroup == "" {
			continue
		}
		processes, _ := c.cfg.Reader.processes(cgroup)
		if len(processes) == 0 {
			continue
		}
		process := strconv.Itoa(processes[0])
		own, err := ownNetwork(c.cfg.Proc, process)
		if err != nil || !own {
			return nil, err
		}
		return ReadNetwork(c.cfg.Proc, process)
	}
	return nil, nil
}

// rate computes the rates of all pods, and drops the state of removed ones.
func (c *Collector) rate(pods []Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]bool{}
	of := func(name string, u Usage, runtimes *uint64) *uint64 {
		seen[name] = true
		if rate := c.rates.Of(name, u); rate != nil {
			return rate
		}
		return runtimes
	}
	for i := range pods {
		p := &pods[i]
		p.NanoCores = of(p.Sandbox, p.Usage, p.NanoCores)
		for k := range p.Containers {
			p.Containers[k].NanoCores = of(p.Containers[k].ID, p.Containers[k].Usage, p.Containers[k].NanoCores)
		}
	}
	c.rates.Keep(func(name string) bool { return seen[name] })
	maps.DeleteFunc(c.names, func(id, _ string) bool { return !seen[id] })
}
