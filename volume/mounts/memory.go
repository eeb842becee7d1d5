package mounts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Memory is a Mounter for tests. It needs no root and records mounts in a table only. Folders
// are real folders of the disk: a mount does not hide their content, and a bind mount does not
// show its source. The unmount of a tmpfs or hugetlbfs deletes the content of its folder. The
// zero value is ready for use. Memory is safe for concurrent use.
type Memory struct {
	// Fault is called before each call with its name ("Mount", "Unmount", "Detach", "At" or
	// "Below") and its path. If it returns an error, the call fails with that error. Optional.
	Fault func(ctx context.Context, call, path string) error
	// Unknown lists the mount options that Mount rejects, such as "noswap" before Linux 6.4.
	Unknown []string

	mu    sync.Mutex
	table []Point
	calls []string
}

var _ Mounter = (*Memory)(nil)

// Calls lists the successful calls of Mount, Unmount and Detach: "Mount PATH".
func (m *Memory) Calls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

func (m *Memory) begin(ctx context.Context, call, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.Fault != nil {
		if err := m.Fault(ctx, call, path); err != nil {
			return err
		}
	}
	m.mu.Lock()
	return nil
}

// Mount implements Mounter.
func (m *Memory) Mount(ctx context.Context, what Mount) error {
	if err := m.begin(ctx, "Mount", what.Target); err != nil {
		return err
	}
	defer m.mu.Unlock()
	has := func(option string) bool { return slices.Contains(what.Options, option) }
	if _, err := os.Lstat(what.Target); err != nil {
		return fmt.Errorf("mount at %s: %w", what.Target, err)
	}
	if i := slices.IndexFunc(what.Options, func(o string) bool { return slices.Contains(m.Unknown, o) }); i >= 0 {
		return fmt.Errorf("mount at %s: option %s: %w", what.Target, what.Options[i], errors.ErrUnsupported)
	}
	switch {
	case has("remount"):
		return m.remount(what)
	case has("bind"), has("rbind"):
		source, err := filepath.EvalSymlinks(what.Source)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", what.Target, err)
		}
		what.Source = source
	case what.FSType == "":
		return nil // a change of propagation only
	}
	m.table = append(m.table, m.point(what))
	m.calls = append(m.calls, "Mount "+what.Target)
	return nil
}

func (m *Memory) remount(what Mount) error {
	i := m.topmost(what.Target)
	if i < 0 {
		return fmt.Errorf("remount %s: not a mount point", what.Target)
	}
	old := m.table[i]
	what.Source, what.FSType = old.Source, old.FSType
	m.table[i] = m.point(what)
	m.calls = append(m.calls, "Mount "+what.Target)
	return nil
}

func (m *Memory) point(what Mount) Point {
	p := Point{
		Path: what.Target, FSType: what.FSType, Source: what.Source, Options: strings.Join(what.Options, ","),
		ReadOnly: slices.Contains(what.Options, "ro"), PageSize: 4096,
	}
	for _, o := range what.Options {
		key, value, _ := strings.Cut(o, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "size":
			p.Size = n
		case "pagesize":
			p.PageSize = n
		}
	}
	return p
}

func (m *Memory) topmost(path string) int {
	for i, p := range slices.Backward(m.table) {
		if p.Path == path {
			return i
		}
	}
	return -1
}

// Unmount implements Mounter.
func (m *Memory) Unmount(ctx context.Context, target string) error {
	return m.unmount(ctx, "Unmount", target)
}

// Detach implements Mounter.
func (m *Memory) Detach(ctx context.Context, target string) error {
	return m.unmount(ctx, "Detach", target)
}

func (m *Memory) unmount(ctx context.Context, call, target string) error {
	if err := m.begin(ctx, call, target); err != nil {
		return err
	}
	defer m.mu.Unlock()
	i := m.topmost(target)
	if i < 0 {
		return nil
	}
	if below := m.below(target); len(below) > 1 && call == "Unmount" && below[len(below)-1].Path != target {
		return fmt.Errorf("unmount %s: in use: %s is mounted", target, below[len(below)-1].Path)
	}
	switch m.table[i].FSType {
	case "tmpfs", "hugetlbfs":
		if err := empty(target); err != nil {
			return err
		}
	}
	m.table = slices.Delete(m.table, i, i+1)
	m.calls = append(m.calls, call+" "+target)
	return nil
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// At implements Mounter.
func (m *Memory) At(ctx context.Context, path string) (Point, bool, error) {
	if err := m.begin(ctx, "At", path); err != nil {
		return Point{}, false, err
	}
	defer m.mu.Unlock()
	if _, err := os.Lstat(path); err != nil {
		return Point{}, false, err
	}
	i := m.topmost(path)
	if i < 0 {
		return Point{}, false, nil
	}
	p := m.table[i]
	p.Source, p.Options = "", ""
	return p, true, nil
}

// Below implements Mounter.
func (m *Memory) Below(ctx context.Context, path string) ([]Point, error) {
	if err := m.begin(ctx, "Below", path); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	out := m.below(path)
	for i := range out {
		out[i].Size, out[i].PageSize = 0, 0
	}
	return out, nil
}

func (m *Memory) below(path string) (out []Point) {
	for _, p := range m.table {
		if strings.HasPrefix(p.Path+"/", strings.TrimSuffix(path, "/")+"/") {
			out = append(out, p)
		}
	}
	return out
}
