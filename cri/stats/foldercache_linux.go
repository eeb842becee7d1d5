package stats

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// folderCache keeps folders open between readings. The kernel's path lookup takes half of the time of
// reading a cgroup file. Folders that were not read for two sweeps are closed, and all with the
// file system itself. It is safe for concurrent use.
type folderCache struct {
	most int

	mu      sync.Mutex
	folders map[string]*cachedFolder
	swept   time.Time
}

// cachedFolder is closed by the garbage collector after its last use, so that no reader uses a
// descriptor that was reused.
type cachedFolder struct {
	file *os.File
	fd   int
	used time.Time
}

// maxCachedFolders bounds the open descriptors. A quarter of the process's limit also bounds them.
const maxCachedFolders = 4096

func newFolderCache() *folderCache {
	k := &folderCache{most: maxCachedFolders, folders: map[string]*cachedFolder{}}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur/4 < maxCachedFolders {
		k.most = int(limit.Cur / 4)
	}
	return k
}

// sweeps is the period of closing unused folders.
const sweeps = time.Minute

// get returns the folder of a path. It returns nil if the folder cannot be opened or too many are
// open. fresh reports whether it was opened now.
func (k *folderCache) get(path string) (f *cachedFolder, fresh bool) {
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
		fd, err := retryInterrupted(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
		if err != nil {
			return nil, false
		}
		f, fresh = &cachedFolder{file: os.NewFile(uintptr(fd), path), fd: fd}, true
		k.folders[path] = f
	}
	if f != nil {
		f.used = now
	}
	return f, fresh
}

// drop forgets a folder without readable files: a new one may have its name.
func (k *folderCache) drop(path string, f *cachedFolder) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.folders[path] == f {
		delete(k.folders, path)
	}
}

// hostFolder is the use of a cachedFolder for one reading.
type hostFolder struct {
	*cachedFolder
	path        string
	folderCache *folderCache
	fresh, hit  bool
}

func (h host) openFolder(name string) folder {
	path := h.dir + "/" + name
	if f, fresh := h.folderCache.get(path); f != nil {
		return &hostFolder{cachedFolder: f, path: path, folderCache: h.folderCache, fresh: fresh}
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
		f.folderCache.drop(f.path, f.cachedFolder)
	}
	return !f.hit && !f.fresh
}
