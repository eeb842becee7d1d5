package podsource

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// snapshot is what a folder of manifests, or one manifest, looked like at one
// moment.
type snapshot struct {
	// files are the entries by name; those whose names say that they are none of
	// our business are left out.
	files []reading
	// folder is what was at the path.
	folder folderID
	// problem is what is wrong with the path itself.
	problem string
	// unknown tells that the path is there but could not be listed: nothing
	// follows about which files exist. missing tells that the path is not there.
	unknown, missing bool
}

// folderID tells what is at a path from something else there; zero when it is not known.
type folderID struct{ device, inode uint64 }

// reading is one file: its content, or why there is none.
type reading struct {
	path    string
	data    []byte
	modTime time.Time
	problem string
	// stamp is that of the version that was read. same tells that the version is
	// known by it, and was not read again.
	stamp stamp
	same  bool
	// vanished tells that it was gone before it was read, silent that it has not
	// answered yet: nothing follows about what it holds.
	vanished, silent bool
}

// stamp is what a file system says about one version of a file.
type stamp struct {
	device, inode     uint64
	size              int64
	modified, changed int64 // in ns since 1970
}

// reader reads manifests.
type reader struct {
	// maxSize is the most bytes of a manifest.
	maxSize int64
	// youngest is how old a file must be to be known by its stamp.
	youngest time.Duration
}

// request asks for one file.
type request struct {
	path string
	// known is the stamp of the version that need not be read again.
	known stamp
	// link is the entry itself when it is no plain file: a link may begin to
	// lead elsewhere.
	link fs.FileInfo
}

// listing is what a path turned out to be, and the files there.
type listing struct {
	snapshot
	requests []request
}

// list finds the files of a folder, or a single file.
func (r reader) list(path string) listing {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return listing{snapshot: snapshot{problem: "does not exist", missing: true}}
	case err != nil:
		return listing{snapshot: snapshot{problem: bare(err), unknown: true}}
	case info.Mode().IsRegular():
		return listing{snapshot: snapshot{folder: folderOf(info)}, requests: []request{{path: path}}}
	case !info.IsDir():
		return listing{snapshot: snapshot{problem: "is " + describe(info.Mode()) + ", neither a folder nor a file", unknown: true}}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return listing{snapshot: snapshot{problem: bare(err), unknown: true}}
	}
	l := listing{snapshot: snapshot{folder: folderOf(info)}, requests: make([]request, 0, len(entries))}
	for _, entry := range entries {
		if ignoredName(entry.Name()) {
			continue
		}
		q := request{path: filepath.Join(path, entry.Name())}
		if !entry.Type().IsRegular() {
			q.link, _ = entry.Info() // nil if it has vanished
		}
		l.requests = append(l.requests, q)
	}
	return l
}

// ignoredName tells which entries of a folder are no manifests: hidden ones and
// the copies that Emacs keeps of unsaved changes.
func ignoredName(name string) bool {
	return strings.HasPrefix(name, ".") || (len(name) > 1 && strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#"))
}

// one reads one file.
func (rd reader) one(q request) (r reading) {
	r.path = q.path
	now := time.Now()
	info, err := os.Stat(q.path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(q.path); err != nil {
			r.vanished = true
			return r
		}
		r.problem = "is a symbolic link to nothing"
		return r
	}
	if err != nil {
		r.problem = bare(err)
		return r
	}
	if r.problem = unreadable(info, rd.maxSize); r.problem != "" {
		return r
	}
	if s := stampOf(info, rd.youngest, now); s != (stamp{}) && s == q.known {
		r.same, r.stamp, r.modTime = true, s, info.ModTime()
		return r
	}
	rd.regular(&r, now)
	return r
}

// unreadable says why a file is not even opened.
func unreadable(info fs.FileInfo, maxSize int64) string {
	switch {
	case !info.Mode().IsRegular():
		return "is " + describe(info.Mode()) + ", not a file"
	case info.Size() > maxSize:
		return fmt.Sprintf("has %d bytes, more than the limit of %d", info.Size(), maxSize)
	}
	return ""
}

// regular reads a file that was regular a moment ago. It looks again once the
// file is open, and opens it in a way that does not wait for the other end of a
// pipe. The stamp is taken before the content: a file that changes meanwhile has
// another one afterwards.
func (rd reader) regular(r *reading, now time.Time) {
	f, err := os.OpenFile(r.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		r.problem = bare(err)
		return
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		r.problem = bare(err)
		return
	}
	if r.problem = unreadable(info, rd.maxSize); r.problem != "" {
		return
	}
	data, err := rd.content(f, info)
	switch {
	case err != nil:
		r.problem = bare(err)
	case int64(len(data)) > rd.maxSize:
		r.problem = fmt.Sprintf("has more bytes than the limit of %d", rd.maxSize)
	default:
		r.data, r.modTime, r.stamp = data, info.ModTime(), stampOf(info, rd.youngest, now)
	}
}

// content reads an open file. One that says that it has no bytes is not read:
// the files of the kernel do, and reading some of them waits, or takes away what
// others wait for.
func (rd reader) content(f *os.File, info fs.FileInfo) ([]byte, error) {
	if info.Size() == 0 {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(f, rd.maxSize+1))
}

// bare is an error's text without the operation and the path.
func bare(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return "cannot be read: " + err.Error()
}

// describe names what is not a regular file.
func describe(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	default:
		return "something else"
	}
}
