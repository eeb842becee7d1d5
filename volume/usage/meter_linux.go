package usage

import (
	"context"
	"errors"
	iofs "io/fs"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
)

// Meter measures volumes. Create it with New. It is safe for concurrent use.
type Meter struct {
	pace       pace
	query      func(ctx context.Context, dir string) (Usage, bool, error)
	onMeasured func(source Source, took time.Duration, err error)
	calls      run.Calls
	mu         sync.Mutex
	measured   map[string]Usage
}

// filesPerSecond bounds the rate of files that a Meter visits, for all volumes in total.
const filesPerSecond = 20000

// New returns a Meter.
func New(cfg Config) *Meter {
	fields.Default(&cfg.Metrics.OnMeasured, func(Source, time.Duration, error) {})
	return &Meter{query: cfg.Ask, onMeasured: cfg.Metrics.OnMeasured, pace: pace{interval: time.Second / filesPerSecond}, measured: map[string]Usage{}}
}

// Known returns the last measurement of a volume's folder. It does not access the disk.
func (m *Meter) Known(dir string) (Usage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, ok := m.measured[dir]
	return u, ok
}

// Forget drops the measurement of a removed volume.
func (m *Meter) Forget(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.measured, dir)
}

// Measure measures a volume, unless the last measurement is at most maxAge old. It waits for a
// concurrent measurement of the same volume. After an error the last measurement stays.
func (m *Meter) Measure(ctx context.Context, dir string, maxAge time.Duration) (Usage, error) {
	if u, ok := m.Known(dir); ok && time.Since(u.Measured) <= maxAge {
		return u, nil
	}
	var out Usage
	err := m.calls.Do(ctx, "measure", dir, func() (err error) {
		if u, ok := m.Known(dir); ok && time.Since(u.Measured) <= maxAge {
			out = u // a concurrent call has finished
			return nil
		}
		out, err = m.measure(ctx, dir)
		if err == nil {
			m.mu.Lock()
			m.measured[dir] = out
			m.mu.Unlock()
		}
		return err
	})
	if err != nil {
		return Usage{}, err // the unfinished call may still write to out
	}
	return out, nil
}

// Running lists the measurements in progress with their start times.
func (m *Meter) Running() []string { return m.calls.Running() }

// maxWalks bounds the walks of a volume whose folders move during a walk.
const maxWalks = 3

func (m *Meter) measure(ctx context.Context, dir string) (Usage, error) {
	u := Usage{Measured: time.Now()}
	if m.query != nil {
		if reported, ok, err := m.query(ctx, dir); ok || err != nil {
			reported.Measured = u.Measured
			return reported, err
		}
	}
	source, err := m.measureFolder(ctx, dir, &u)
	m.onMeasured(source, time.Since(u.Measured), err)
	return u, err
}

// measureFolder measures a volume with the cheapest source that is available.
func (m *Meter) measureFolder(ctx context.Context, dir string, u *Usage) (Source, error) {
	root, err := fs.Entry{Dir: unix.AT_FDCWD, Name: dir}.Stat()
	if err != nil {
		return FileSystem, &iofs.PathError{Op: "measure", Path: dir, Err: err}
	}
	var is unix.Statfs_t
	if err := unix.Statfs(dir, &is); err != nil {
		return FileSystem, &iofs.PathError{Op: "measure", Path: dir, Err: err}
	}
	u.Capacity, u.Available = int64(is.Blocks)*int64(is.Bsize), int64(is.Bavail)*int64(is.Bsize)
	u.TotalFiles, u.FreeFiles = int64(is.Files), int64(is.Ffree)
	if root.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		u.Bytes, u.Files = int64(is.Blocks-is.Bfree)*int64(is.Bsize), int64(is.Files-is.Ffree)
		return FileSystem, nil
	}
	if bytes, files, ok := projectUsage(dir); ok {
		u.Bytes, u.Files = bytes, files
		return Project, nil
	}
	return Walked, m.walk(ctx, dir, root, u)
}

func (m *Meter) walk(ctx context.Context, dir string, root unix.Statx_t, u *Usage) (err error) {
	for range maxWalks {
		w := walk{ctx: ctx, pace: &m.pace, root: root}
		w.add(root)
		err = fs.Walk(ctx, dir, fs.Visitor{Visit: w.visit})
		u.Bytes, u.Files = w.bytes, w.files
		if !errors.Is(err, fs.ErrMoved) {
			break
		}
	}
	if errors.Is(err, fs.ErrMounted) {
		return nil // the mount is not part of the volume
	}
	return err
}

type walk struct {
	ctx          context.Context
	pace         *pace
	root         unix.Statx_t
	bytes, files int64
	links        map[uint64]uint32 // inode to names not yet visited, for files with several names
}

func (w *walk) visit(e fs.Entry) error {
	if err := w.pace.wait(w.ctx); err != nil {
		return err
	}
	is, err := e.Stat()
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &iofs.PathError{Op: "measure", Path: e.Name, Err: err}
	}
	if is.Mnt_id == w.root.Mnt_id && is.Dev_major == w.root.Dev_major && is.Dev_minor == w.root.Dev_minor {
		w.add(is)
	}
	return nil
}

func (w *walk) add(is unix.Statx_t) {
	if is.Nlink > 1 && is.Mode&unix.S_IFMT != unix.S_IFDIR {
		left, seen := w.links[is.Ino]
		if seen {
			if left--; left == 0 {
				delete(w.links, is.Ino)
			} else {
				w.links[is.Ino] = left
			}
			return
		}
		if w.links == nil {
			w.links = map[uint64]uint32{}
		}
		w.links[is.Ino] = is.Nlink - 1
	}
	w.files++
	w.bytes += int64(is.Blocks) * 512
}

// pace limits the rate of visited files.
type pace struct {
	interval time.Duration
	mu       sync.Mutex
	next     time.Time
}

// burst is the lead over the rate at which a caller must wait.
const burst = 10 * time.Millisecond

func (p *pace) wait(ctx context.Context) error {
	now := time.Now()
	p.mu.Lock()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(p.interval)
	ahead := p.next.Sub(now)
	p.mu.Unlock()
	if ahead > burst && !run.Sleep(ctx, ahead) {
		return run.EndOf(ctx)
	}
	return nil
}
