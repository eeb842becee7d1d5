package stats

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/fields"
)

// Version is a version of the cgroup hierarchy.
type Version int

// Versions of the cgroup hierarchy.
const (
	// V1 has one hierarchy per controller, each mounted on a folder of its name.
	V1 Version = 1
	// V2 has a single hierarchy.
	V2 Version = 2
)

// Config configures a Reader. Both fields are required.
type Config struct {
	// FS is the mount point of cgroups: /sys/fs/cgroup.
	FS fs.FS
	// Version is the version of the hierarchy in FS.
	Version Version
}

// Reader reads the usage of cgroups. Use New. It is safe for concurrent use and keeps no figures.
type Reader struct{ cfg Config }

// New checks the configuration and returns a Reader.
func New(cfg Config) (*Reader, error) {
	f := fields.Of("stats: Config")
	f.Required("FS", cfg.FS)
	if cfg.Version != V1 && cfg.Version != V2 {
		f.Refuse("Version: %d is neither 1 nor 2", cfg.Version)
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Reader{cfg: cfg}, nil
}

// Read returns the usage of a cgroup, given by its path from the root of the hierarchy
// ("/kubepods/podUID"). For a missing cgroup, or one removed meanwhile, the error wraps
// fs.ErrNotExist.
func (r *Reader) Read(cgroup string) (Usage, error) {
	var u Usage
	err := r.read(cgroup, &u, nil)
	return u, err
}

func (r *Reader) read(cgroup string, u *Usage, d *Details) error {
	found, stale := r.readOnce(cgroup, u, d)
	if stale { // it was removed, and may have been made anew
		if d != nil {
			*d = Details{}
		}
		found, _ = r.readOnce(cgroup, u, d)
	}
	if !found {
		*u = Usage{}
		return fmt.Errorf("stats: cgroup %s: %w", cgroup, fs.ErrNotExist)
	}
	return nil
}

func (r *Reader) readOnce(cgroup string, u *Usage, d *Details) (found, stale bool) {
	u.Time = time.Now()
	files := &files{fs: r.cfg.FS}
	if r.cfg.Version == V1 {
		readV1(files, clean(cgroup), u, d)
	} else {
		readV2(files, clean(cgroup), u, d)
	}
	u.Unread = files.unread
	return files.found, files.leave()
}

// Children returns the names of the cgroups directly below one, in no particular order. For a
// missing cgroup the error wraps fs.ErrNotExist.
func (r *Reader) Children(cgroup string) ([]string, error) {
	entries, err := fs.ReadDir(r.cfg.FS, r.in("memory", cgroup))
	if err != nil {
		return nil, fmt.Errorf("stats: cgroup %s: %w", cgroup, err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// processes returns the IDs of the processes in a cgroup, without the cgroups below.
func (r *Reader) processes(cgroup string) ([]int, error) {
	name := path.Join(r.in("memory", cgroup), "cgroup.procs")
	text, err := fs.ReadFile(r.cfg.FS, name)
	if err != nil {
		return nil, fmt.Errorf("stats: cgroup %s: %w", cgroup, err)
	}
	var ids []int
	for _, field := range strings.Fields(string(text)) {
		id, err := strconv.Atoi(field)
		if err != nil || id <= 0 { // 0 is a process of another PID namespace
			return nil, fmt.Errorf("stats: %s: %q is not a process ID", name, field)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// in returns the folder of a cgroup; with version 1, in the hierarchy of the controller.
func (r *Reader) in(controller, cgroup string) string {
	if r.cfg.Version == V2 {
		controller = ""
	}
	return path.Join(".", controller, clean(cgroup))
}

func clean(cgroup string) string { return strings.TrimPrefix(path.Clean("/"+cgroup), "/") }

// Created returns the approximate creation time of a cgroup: the time of the last creation or
// removal of an entry in it. The kernel keeps no better time.
func (r *Reader) Created(cgroup string) (time.Time, error) {
	info, err := fs.Stat(r.cfg.FS, r.in("memory", cgroup))
	if err != nil {
		return time.Time{}, fmt.Errorf("stats: cgroup %s: %w", cgroup, err)
	}
	return info.ModTime(), nil
}
