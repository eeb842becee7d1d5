package cgroups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	oci "github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"

	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/stats"
)

const mountpoint = "/sys/fs/cgroup"

// Controllers of a pod's cgroup.
var (
	controllersV1 = []string{"cpu", "cpuacct", "cpuset", "memory"}
	controllersV2 = []string{"cpu", "memory", "pids"}
	// optionalV2 are used where the root has them. Pods run correctly without them: cpuset is never
	// written here, and without hugetlb there is no page size to limit. The other controllers are
	// required, because they enforce limits that protect all pods of the node.
	optionalV2 = []string{"cpuset", "hugetlb"}
)

// maxKills is the maximum number of attempts to kill the processes of a cgroup. killPause is the
// pause after each attempt.
const (
	maxKills  = 5
	killPause = 100 * time.Millisecond
)

// Host implements Kernel with the cgroups of the machine. Use NewHost.
type Host struct {
	driver  cgroups.Driver
	version cgroups.Version
	needed  []string
	// mounted has the mounted controllers of version 1, hierarchies the folders of all its
	// hierarchies, also of those without a required controller.
	mounted, hierarchies []string
	huge                 []string
	reader               *stats.Reader
	// locks serializes the changes of each cgroup.
	locks pathLocks
}

var _ Kernel = (*Host)(nil)

// NewHost returns the machine's cgroups, managed by a driver. It fails with the name of a required
// controller that the machine does not have.
func NewHost(driver cgroups.Driver) (*Host, error) {
	h := &Host{driver: driver, version: HostVersion(), needed: controllersV1}
	if h.version == cgroups.V2 {
		root, err := controllers(mountpoint)
		if err != nil {
			return nil, fmt.Errorf("cgroups: %w", err)
		}
		if h.needed, err = neededV2(root); err != nil {
			return nil, err
		}
	} else {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return nil, fmt.Errorf("cgroups: %w", err)
		}
		h.mounted, h.hierarchies = mountedV1(string(mounts))
		for _, c := range h.needed {
			if !slices.Contains(h.mounted, c) {
				return nil, fmt.Errorf("cgroups: controller %s is not mounted below %s", c, mountpoint)
			}
		}
	}
	if h.has("hugetlb") {
		h.huge = oci.HugePageSizes()
	}
	reader, err := stats.New(stats.Config{FS: os.DirFS(mountpoint), Version: stats.Version(h.version)})
	h.reader = reader
	return h, err
}

func (h *Host) has(controller string) bool {
	if h.version == cgroups.V2 {
		return slices.Contains(h.needed, controller)
	}
	return slices.Contains(h.mounted, controller)
}

// Missing returns a sentence for each optional controller that the machine does not have, with the
// limit that pods do not have for that reason.
func (h *Host) Missing() (why []string) {
	if !h.has("hugetlb") && len(oci.HugePageSizes()) > 0 {
		why = append(why, "controller hugetlb is not available: the huge pages of pods are not limited")
	}
	if !h.has("pids") {
		why = append(why, "controller pids is not available: the number of processes of pods is not limited (podPidsLimit)")
	}
	return why
}

// mountedV1 returns the controllers of version 1 that are mounted below mountpoint, and their
// folders, given the mount table. A folder of a controller's name is not enough: it may be a plain
// folder.
func mountedV1(mountinfo string) (controllers, hierarchies []string) {
	for line := range strings.Lines(mountinfo) {
		mount, filesystem, ok := strings.Cut(line, " - ")
		at, of := strings.Fields(mount), strings.Fields(filesystem)
		if !ok || len(at) < 5 || len(of) < 3 || of[0] != "cgroup" || !strings.HasPrefix(at[4], mountpoint+"/") {
			continue
		}
		controllers = append(controllers, strings.Split(of[2], ",")...) // also options such as rw
		hierarchies = append(hierarchies, at[4])
	}
	return controllers, hierarchies
}

// HostVersion returns the cgroup version of the machine.
func HostVersion() cgroups.Version {
	if oci.IsCgroup2UnifiedMode() {
		return cgroups.V2
	}
	return cgroups.V1
}

// Version implements Kernel.
func (h *Host) Version() cgroups.Version { return h.version }

// HugePageSizes implements Kernel.
func (h *Host) HugePageSizes() []string { return slices.Clone(h.huge) }

// neededV2 returns the controllers that a cgroup requires, given the controllers of the root.
func neededV2(root []string) ([]string, error) {
	var errs []error
	for _, c := range controllersV2 {
		if !slices.Contains(root, c) {
			errs = append(errs, fmt.Errorf("cgroups: the kernel has no controller %s in %s", c, mountpoint))
		}
	}
	lacking := func(c string) bool { return !slices.Contains(root, c) }
	return slices.Concat(controllersV2, slices.DeleteFunc(slices.Clone(optionalV2), lacking)), errors.Join(errs...)
}

func controllers(folder string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	return strings.Fields(string(text)), err
}

// folders returns the paths of a cgroup: in version 1, one in the hierarchy of each required
// controller.
func (h *Host) folders(n cgroups.Name) []string {
	at := h.driver.Path(n)
	if h.version == cgroups.V2 {
		return []string{filepath.Join(mountpoint, at)}
	}
	out := make([]string, len(h.needed))
	for i, c := range h.needed {
		out[i] = filepath.Join(mountpoint, c, at)
	}
	return out
}

// all returns the paths of a cgroup in all hierarchies. The runtime creates it also in those that
// folders omits, such as freezer and systemd. There it can be the last remains of a cgroup, if the
// agent was killed while it removed the cgroup.
func (h *Host) all(n cgroups.Name) []string {
	if h.version == cgroups.V2 {
		return h.folders(n)
	}
	out := make([]string, len(h.hierarchies))
	for i, folder := range h.hierarchies {
		out[i] = filepath.Join(folder, h.driver.Path(n))
	}
	return out
}

// IsComplete implements Kernel.
func (h *Host) IsComplete(n cgroups.Name) (bool, error) {
	for _, folder := range h.folders(n) {
		var have []string
		var err error
		if h.version == cgroups.V2 {
			have, err = controllers(folder)
		} else {
			_, err = os.Stat(folder)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		missing := func(c string) bool { return !slices.Contains(have, c) }
		if h.version == cgroups.V2 && slices.ContainsFunc(h.needed, missing) {
			return false, nil
		}
	}
	return true, nil
}

// InUse implements Kernel. In version 1 it checks the hierarchies of all required controllers.
func (h *Host) InUse(n cgroups.Name) (bool, error) {
	for _, folder := range h.folders(n) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(entries, os.DirEntry.IsDir) {
			return true, nil
		}
		pids, err := oci.GetPids(folder)
		if err != nil || len(pids) > 0 {
			return len(pids) > 0, err
		}
	}
	return false, nil
}

// MemoryUsage implements Kernel.
func (h *Host) MemoryUsage(n cgroups.Name) (int64, error) {
	u, err := h.reader.Read(h.driver.Path(n))
	switch {
	case err != nil:
		return 0, err
	case u.Memory.Usage == nil:
		return 0, fmt.Errorf("cgroups: memory usage of %s: %w", h.driver.Path(n), cmp.Or(errors.Join(u.Unread...), fs.ErrNotExist))
	}
	return int64(*u.Memory.Usage), nil
}

// Children implements Kernel.
func (h *Host) Children(n cgroups.Name) ([]cgroups.Name, error) {
	var out []cgroups.Name
	seen := map[string]bool{}
	for _, folder := range h.all(n) {
		entries, err := os.ReadDir(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if !e.IsDir() || seen[e.Name()] {
				continue
			}
			seen[e.Name()] = true
			child, err := h.driver.Parse(path.Join(h.driver.Path(n), e.Name()))
			if err == nil && len(child) == len(n)+1 { // otherwise it is a scope or a service
				out = append(out, child)
			}
		}
	}
	return out, nil
}

// Set implements Kernel. Changes of one cgroup are serialized, because the library reads back each
// value and takes a concurrent write for a refusal of the kernel.
func (h *Host) Set(_ context.Context, n cgroups.Name, v cgroups.Values) error {
	defer h.locks.lock(h.driver.Path(n))()
	r := h.resources(v)
	m, err := h.manager(n, r)
	if err != nil {
		return err
	}
	if err := m.Apply(-1); err != nil { // no process
		return err
	}
	return m.Set(r)
}

func (h *Host) manager(n cgroups.Name, r *oci.Resources) (oci.Manager, error) {
	at := h.driver.Path(n)
	config := &oci.Cgroup{Resources: r, Systemd: h.driver == cgroups.Systemd}
	if config.Systemd {
		config.Name, config.Parent = path.Base(at), path.Base(path.Dir(at))
		if config.Parent == "/" {
			config.Parent = "-.slice"
		}
	} else {
		config.Path = at
	}
	return manager.New(config)
}

// resources converts values for the library. It drops huge page sizes that the machine cannot
// limit, and the limit of processes without its controller.
func (h *Host) resources(v cgroups.Values) *oci.Resources {
	r := &oci.Resources{
		SkipDevices: true, SkipFreezeOnSet: true,
		CpuQuota: v.Quota, CpuPeriod: v.Period, Memory: v.Memory,
	}
	switch {
	case v.Shares > 0 && h.version == cgroups.V2:
		r.CpuWeight = cgroups.Weight(v.Shares)
	case v.Shares > 0:
		r.CpuShares = v.Shares
	}
	if v.Pids != 0 && h.has("pids") {
		r.PidsLimit = &v.Pids
	}
	for size, n := range v.HugePages {
		if slices.Contains(h.huge, size) {
			r.HugetlbLimit = append(r.HugetlbLimit, &oci.HugepageLimit{Pagesize: size, Limit: uint64(n)})
		}
	}
	return r
}

// Remove implements Kernel.
func (h *Host) Remove(ctx context.Context, n cgroups.Name) error {
	defer h.locks.lock(h.driver.Path(n))()
	if !slices.ContainsFunc(h.all(n), exists) {
		return nil
	}
	m, err := h.manager(n, &oci.Resources{SkipDevices: true})
	if err != nil {
		return err
	}
	for range maxKills {
		killed, err := h.kill(n)
		if err != nil {
			return err
		}
		if !killed {
			break
		}
		select {
		case <-time.After(killPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := m.Destroy(); err != nil {
		return fmt.Errorf("%s: %w", h.driver.Path(n), err)
	}
	return nil
}

func exists(folder string) bool {
	_, err := os.Stat(folder)
	return err == nil
}
