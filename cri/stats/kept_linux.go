package stats

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// kept are folders that stay open from one reading to the next: the kernel looks at each part
// of a path anew, which takes half of the time that it takes to read a file of a cgroup. They
// are closed once nobody uses them: those that were not read for two sweeps, and all with the
// file system itself. It is safe for concurrent use.
type kept struct {
	most int

	mu      sync.Mutex
	folders map[string]*keptFolder
	swept   time.Time
}

// keptFolder is closed when nothing refers to it any more, so that nobody reads by a
// descriptor that has become somebody else's.
type keptFolder struct {
	file *os.File
	fd   int
	used time.Time
}

// mostKept bounds how many descriptors are taken: also by a quarter of what the process may
// have.
const mostKept = 4096

func newKept() *kept {
	k := &kept{most: mostKept, folders: map[string]*keptFolder{}}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur/4 < mostKept {
		k.most = int(limit.Cur / 4)
	}
	return k
}

// sweeps is how often it is looked for folders that nobody has read in between.
const sweeps = time.Minute

// get is a folder by its path, nil if it cannot be opened or too many are. fresh tells that it
// was opened just now.
func (k *kept) get(path string) (f *keptFolder, fresh bool) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.swept) > sweeps {
		for path, f := range k.folders {
			if f.used.Before(k.swept) {
				delete(k.folders, path)
			}
		}
		k.swept = now
	}
	f = k.folders[path]
	if f == nil && len(k.folders) < k.most {
		fd, err := again(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
		if err != nil {
			return nil, false
		}
		f, fresh = &keptFolder{file: os.NewFile(uintptr(fd), path), fd: fd}, true
		k.folders[path] = f
	}
	if f != nil {
		f.used = now
	}
	return f, fresh
}

// drop forgets a folder of which nothing could be read: there may be another one of its name.
func (k *kept) drop(path string, f *keptFolder) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.folders[path] == f {
		delete(k.folders, path)
	}
}

// hostFolder is one that is read once.
type hostFolder struct {
	*keptFolder
	path       string
	kept       *kept
	fresh, hit bool
}

// openFolder implements folders.
func (h host) openFolder(name string) folder {
	path := h.dir + "/" + name
	if f, fresh := h.kept.get(path); f != nil {
		return &hostFolder{keptFolder: f, path: path, kept: h.kept, fresh: fresh}
	}
	return nil
}

func (f *hostFolder) read(name string) ([]byte, error) {
	content, err := readAll(f.fd, name)
	runtime.KeepAlive(f.file)
	f.hit = f.hit || err == nil
	return content, err
}

func (f *hostFolder) close() (stale bool) {
	if !f.hit {
		f.kept.drop(f.path, f.keptFolder)
	}
	return !f.hit && !f.fresh
}
