package stats

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// Version is that of the cgroup hierarchy.
type Version int

// The versions.
const (
	// V1 has a hierarchy per controller, each mounted on a folder of its name.
	V1 Version = 1
	// V2 is one hierarchy.
	V2 Version = 2
)

// Config configures a Reader. Both fields are required.
type Config struct {
	// FS is where cgroups are mounted: /sys/fs/cgroup.
	FS fs.FS
	// Version is that of what is mounted there.
	Version Version
}

// Reader reads the usage of cgroups. Use New. It is safe for concurrent use, and keeps
// nothing.
type Reader struct{ cfg Config }

// New returns a Reader.
func New(cfg Config) (*Reader, error) {
	switch {
	case cfg.FS == nil:
		return nil, errors.New("stats: Config.FS is required")
	case cfg.Version != V1 && cfg.Version != V2:
		return nil, fmt.Errorf("stats: Config.Version: %d is neither 1 nor 2", cfg.Version)
	}
	return &Reader{cfg: cfg}, nil
}

// Read reads what a cgroup uses, by its path from the root of the hierarchy
// ("/kubepods/podUID"). A cgroup that is not there, or goes meanwhile, is an error that
// wraps fs.ErrNotExist.
func (r *Reader) Read(cgroup string) (Usage, error) {
	folder := strings.TrimPrefix(path.Clean("/"+cgroup), "/")
	u := Usage{Time: time.Now()}
	files := &files{fs: r.cfg.FS}
	if r.cfg.Version == V1 {
		readV1(files, folder, &u)
	} else {
		readV2(files, folder, &u)
	}
	u.Unread = files.unread
	if !files.found {
		return Usage{}, fmt.Errorf("stats: cgroup %s: %w", cgroup, fs.ErrNotExist)
	}
	return u, nil
}
