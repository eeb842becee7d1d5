package stats

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// kept keeps folders open between readings. The kernel's path lookup takes half of the time of
// reading a cgroup file. Folders that were not read for two sweeps are closed, and all with the
// file system itself. It is safe for concurrent use.
type kept struct {
	most int

	mu      sync.Mutex
	folders map[string]*keptFolder
	swept   time.Time
}

// keptFolder is closed by the garbage collector after its last use, so that no reader uses a
// descriptor that was reused.
type keptFolder struct {
	file *os.File
	fd   int
	used time.Time
}

// mostKept bounds the open descriptors. A quarter of the process's limit also bounds them.
const mostKept = 4096

func newKept() *kept {
	k := &kept{most: mostKept, folders: map[string]*keptFolder{}}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur/4 < mostKept {
		k.most = int(limit.Cur / 4)
	}
	return k
}

// sweeps is the period of closing unused folders.
const sweeps = time.Minute

// get returns the folder of a path. It returns nil if the folder cannot be opened or too many are
// open. fresh reports whether it was opened now.
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

// drop forgets a folder without readable files: a new one may have its name.
func (k *kept) drop(path string, f *keptFolder) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.folders[path] == f {
		delete(k.folders, path)
	}
}

// hostFolder is the use of a keptFolder for one reading.
type hostFolder struct {
	*keptFolder
	path       string
	kept       *kept
	fresh, hit bool
}

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
