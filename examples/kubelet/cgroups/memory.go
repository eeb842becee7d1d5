package cgroups

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/podwright/podwright/cri/cgroups"
)

// Memory is a Kernel in memory for tests. Its zero value has no cgroups.
type Memory struct {
	mu     sync.Mutex
	groups map[string]cgroups.Values
	// Fail is called before each operation with the cgroup's path in cgroupfs notation and the
	// operation. Its error fails the operation. Optional.
	Fail func(path, what string) error
	// Hierarchy is the cgroup version. Default: V2.
	Hierarchy cgroups.Version
	// Usage is the result of MemoryUsage for each cgroup.
	Usage int64
}

var _ Kernel = (*Memory)(nil)

func pathOf(n cgroups.Name) string { return cgroups.Cgroupfs.Path(n) }

func (m *Memory) fails(n cgroups.Name, what string) error {
	if m.Fail == nil {
		return nil
	}
	return m.Fail(pathOf(n), what)
}

// Set implements Kernel.
func (m *Memory) Set(_ context.Context, n cgroups.Name, v cgroups.Values) error {
	if err := m.fails(n, "set"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups == nil {
		m.groups = map[string]cgroups.Values{}
	}
	for i := range n {
		if at := pathOf(n[:i+1]); i < len(n)-1 {
			m.groups[at] = merge(m.groups[at], cgroups.Values{})
		} else {
			m.groups[at] = merge(m.groups[at], v)
		}
	}
	return nil
}

func merge(have, v cgroups.Values) cgroups.Values {
	set(&have.Shares, v.Shares)
	set(&have.Quota, v.Quota)
	set(&have.Period, v.Period)
	set(&have.Memory, v.Memory)
	set(&have.Pids, v.Pids)
	have.HugePages = maps.Clone(have.HugePages)
	for size, n := range v.HugePages {
		if have.HugePages == nil {
			have.HugePages = map[string]int64{}
		}
		have.HugePages[size] = n
	}
	return have
}

func set[T comparable](have *T, n T) {
	var none T
	if n != none {
		*have = n
	}
}

// IsComplete implements Kernel.
func (m *Memory) IsComplete(n cgroups.Name) (bool, error) {
	_, ok := m.Get(pathOf(n))
	return ok, m.fails(n, "look")
}

// InUse implements Kernel.
func (m *Memory) InUse(n cgroups.Name) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range m.groups {
		if strings.HasPrefix(at, pathOf(n)+"/") {
			return true, m.fails(n, "look")
		}
	}
	return false, m.fails(n, "look")
}

// MemoryUsage implements Kernel.
func (m *Memory) MemoryUsage(n cgroups.Name) (int64, error) { return m.Usage, m.fails(n, "look") }

// Version implements Kernel.
func (m *Memory) Version() cgroups.Version { return cmp.Or(m.Hierarchy, cgroups.V2) }

// HugePageSizes implements Kernel.
func (m *Memory) HugePageSizes() []string { return nil }

// Children implements Kernel.
func (m *Memory) Children(n cgroups.Name) (out []cgroups.Name, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range slices.Sorted(maps.Keys(m.groups)) {
		rest, ok := strings.CutPrefix(at, pathOf(n)+"/")
		if ok && !strings.Contains(rest, "/") {
			out = append(out, n.Child(rest))
		}
	}
	return out, m.fails(n, "list")
}

// Remove implements Kernel.
func (m *Memory) Remove(_ context.Context, n cgroups.Name) error {
	if err := m.fails(n, "remove"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.groups, func(at string, _ cgroups.Values) bool {
		return at == pathOf(n) || strings.HasPrefix(at, pathOf(n)+"/")
	})
	return nil
}

// Get returns the values of a cgroup by its path in cgroupfs notation.
func (m *Memory) Get(path string) (cgroups.Values, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.groups[path]
	return v, ok
}

// Paths returns the sorted paths of all cgroups in cgroupfs notation.
func (m *Memory) Paths() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.groups))
}
