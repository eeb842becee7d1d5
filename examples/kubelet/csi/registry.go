package csi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
	volumecsi "github.com/podwright/podwright/volume/csi"
)

// RegistryConfig configures a Registry. Folder is required.
type RegistryConfig struct {
	// Folder is the folder of the drivers' sockets, including subfolders:
	// "/var/lib/kubelet/plugins_registry". Run creates it if it is missing. Files other than
	// sockets and names with a leading dot are ignored.
	Folder string
	// OnReady is called when a driver has registered and can be called, so that volumes waiting for
	// it can be mounted. It is called concurrently for different drivers and must not block.
	// Optional.
	OnReady func(driver string)
	// OnDeregistered is called when the socket of a driver has disappeared. It is not called at the
	// end of Run, because the driver stays. Otherwise it has the rules of OnReady. Optional.
	OnDeregistered func(driver string)
	// Watch calls rescan at once and after each change in the folders that rescan returned last. It
	// blocks until ctx is done or watching fails; errors.ErrUnsupported means that watching is
	// impossible. Default: inotify. A synctest bubble needs NoWatch.
	Watch func(ctx context.Context, rescan func() (folders []string)) error
	// Period is the period of scans independent of Watch. Default: 10 s.
	Period time.Duration
	// ShutdownTimeout bounds the wait for callbacks at the end of Run. Default: 10 s.
	ShutdownTimeout time.Duration
	// Metrics receives calls of NodeGetInfo, which volume/csi does not make.
	Metrics volumecsi.Metrics
	// Logger receives registrations, removals and refusals of drivers. Default: discard.
	Logger *slog.Logger
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("csi: Run was called before")

// Registry has the registered drivers. It implements Drivers of volume/csi. Use NewRegistry. It is
// safe for concurrent use.
type Registry struct {
	cfg   RegistryConfig
	group run.Group

	ran     atomic.Bool
	mu      sync.Mutex
	drivers map[string]*entry
}

var (
	_ volumecsi.Drivers  = (*Registry)(nil)
	_ volumecsi.Absences = (*Registry)(nil)
)

// NewRegistry checks the configuration and returns a Registry. It does nothing until Run.
func NewRegistry(cfg RegistryConfig) (*Registry, error) {
	f := fields.Of("csi: RegistryConfig")
	f.Required("Folder", cfg.Folder)
	fields.Number(f, "Period", &cfg.Period, 10*time.Second)
	fields.Number(f, "ShutdownTimeout", &cfg.ShutdownTimeout, 10*time.Second)
	fields.Default(&cfg.Watch, watch)
	fields.Default(&cfg.OnReady, func(string) {})
	fields.Default(&cfg.OnDeregistered, func(string) {})
	fields.Default(&cfg.Metrics.OnCall, func(volumecsi.Call) {})
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Registry{cfg: cfg, drivers: map[string]*entry{}}, nil
}

// Driver implements Drivers of volume/csi.
func (r *Registry) Driver(name string) volumecsi.Driver {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.ready(name); e != nil {
		return e.client
	}
	return nil
}

// Node returns the NodeInfo of a ready driver.
func (r *Registry) Node(name string) (node NodeInfo, registered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.ready(name); e != nil {
		return e.node, true
	}
	return NodeInfo{}, false
}

// ready returns the driver in use, or nil. The caller holds mu.
func (r *Registry) ready(name string) *entry {
	for e := r.drivers[name]; e != nil; e = e.before {
		if e.ready {
			return e
		}
	}
	return nil
}

// Absence implements Absences of volume/csi.
func (r *Registry) Absence(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.drivers[name]
	if e == nil || e.ready {
		return ""
	}
	return fmt.Sprintf("registering since %s at %s, waiting for NodeGetInfo", e.begun.Format(time.RFC3339), e.socket)
}

// Run registers drivers until ctx is done. It returns an error if callbacks still run after
// ShutdownTimeout.
func (r *Registry) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return ErrAlreadyRun
	}
	if err := os.MkdirAll(r.cfg.Folder, 0o750); err != nil {
		return fmt.Errorf("csi: %w", err)
	}
	r.watch(ctx)
	if running := r.group.Wait(r.cfg.ShutdownTimeout); len(running) > 0 {
		return fmt.Errorf("csi: still running after the shutdown timeout: %v", running)
	}
	return nil
}

var errGone = errors.New("its socket was removed")

type socketState struct {
	is   os.FileInfo
	end  context.CancelCauseFunc
	done chan struct{}
}

// watch scans the folder after each change. It restarts the Watch after each Period, because the
// folder may have been replaced or watching may have failed.
func (r *Registry) watch(ctx context.Context) {
	sockets := map[string]socketState{}
	rescan := func() []string { return r.rescan(ctx, sockets) }
	for ctx.Err() == nil {
		period, end := context.WithTimeout(ctx, r.cfg.Period)
		err := r.cfg.Watch(period, rescan)
		if period.Err() == nil {
			if !errors.Is(err, errors.ErrUnsupported) {
				r.cfg.Logger.Warn("cannot watch the folder of plugins", "again", r.cfg.Period, "err", err)
			}
			rescan()
			<-period.Done()
		}
		end()
	}
}

// NoWatch is a RegistryConfig.Watch that watches nothing: drivers are found once per Period.
func NoWatch(context.Context, func() []string) error { return errors.ErrUnsupported }

// watch is the default RegistryConfig.Watch. It uses inotify.
func watch(ctx context.Context, rescan func() (folders []string)) error {
	var queue fs.Queue
	all := func() error {
		// An entry created between the scan and the start of the watch is found by the next scan.
		for seen := []string(nil); ; {
			folders := rescan()
			if slices.Equal(folders, seen) {
				return nil
			}
			for _, folder := range folders {
				if _, err := queue.Add(folder, fs.Changes|unix.IN_ONLYDIR); err != nil && !errors.Is(err, unix.ENOENT) {
					return fmt.Errorf("%s: %w", folder, err)
				}
			}
			seen = folders
		}
	}
	begin := func(q fs.Queue) error { queue = q; return all() }
	return fs.Watch(ctx, begin, func([]fs.Event) error { return all() })
}

// rescan scans the folder, starts to follow new sockets and stops following removed ones. It
// returns the scanned folders, sorted.
func (r *Registry) rescan(ctx context.Context, sockets map[string]socketState) []string {
	folders, found := r.scan()
	for path, f := range sockets {
		if is := found[path]; is == nil || !same(is, f.is) {
			f.end(errGone)
			if is == nil {
				delete(sockets, path)
			}
		}
	}
	for path, is := range found {
		if f, ok := sockets[path]; !ok || !same(is, f.is) {
			sockets[path] = r.follow(ctx, path, is, f.done)
		}
	}
	return folders
}

// same reports whether a path still has the same socket. It compares times, too: a restarted
// driver's new socket may have the inode of the old one.
func same(a, b os.FileInfo) bool { return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) }

// scan finds sockets in the folder and in those below it.
func (r *Registry) scan() (folders []string, found map[string]os.FileInfo) {
	found = map[string]os.FileInfo{}
	var walk func(dir string)
	walk = func(dir string) {
		folders = append(folders, dir)
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			r.cfg.Logger.Warn("cannot read a folder of plugins", "folder", dir, "err", err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch {
			case e.Name()[0] == '.':
			case e.IsDir():
				walk(path)
			case e.Type() == os.ModeSocket:
				if info, err := e.Info(); err == nil {
					found[path] = info
				}
			}
		}
	}
	walk(r.cfg.Folder)
	slices.Sort(folders)
	return folders, found
}

const firstDelay, mostDelay = 500 * time.Millisecond, 2*time.Minute + 2*time.Second

// follow registers the driver at a socket, with retries, and removes it when the socket disappears.
// It first waits for before, the end of an earlier socket at the path. before may be nil.
func (r *Registry) follow(parent context.Context, path string, is os.FileInfo, before <-chan struct{}) socketState {
	ctx, cancel := context.WithCancelCause(parent)
	f := socketState{is: is, end: cancel, done: make(chan struct{})}
	r.group.Go("plugin at "+path, func() {
		defer close(f.done)
		defer cancel(nil)
		if before != nil {
			<-before
		}
		for delay := firstDelay; ctx.Err() == nil; delay = min(2*delay, mostDelay) {
			e, err := r.register(ctx, path)
			if err == nil {
				<-ctx.Done()
				r.forget(e, context.Cause(ctx) == errGone)
				return
			}
			if ctx.Err() == nil {
				r.cfg.Logger.Warn("plugin not registered; trying again", "socket", path, "again", delay, "err", err)
			}
			run.Sleep(ctx, delay)
		}
	})
	return f
}
