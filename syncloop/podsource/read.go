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
	// problem is what is wrong with the path itself.
	problem string
	// unknown tells that the path is there but could not be listed: nothing
	// follows about which files exist.
	unknown bool
}

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
	// known tells which versions need not be read.
	known func(path string, s stamp) bool
}

// all reads a folder, or a single file. It never blocks on pipes and devices.
func (r reader) all(path string) snapshot {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return snapshot{problem: "does not exist"}
	case err != nil:
		return snapshot{problem: bare(err), unknown: true}
	case info.Mode().IsRegular():
		file, found := r.one(path)
		if !found {
			return snapshot{problem: "does not exist"}
		}
		return snapshot{files: []reading{file}}
	case !info.IsDir():
		return snapshot{problem: "is " + describe(info.Mode()) + ", neither a folder nor a file", unknown: true}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return snapshot{problem: bare(err), unknown: true}
	}
	var s snapshot
	for _, entry := range entries {
		if ignoredName(entry.Name()) {
			continue
		}
		if file, found := r.one(filepath.Join(path, entry.Name())); found {
			s.files = append(s.files, file)
		}
	}
	return s
}

// ignoredName tells which entries of a folder are no manifests: hidden ones and
// the copies that Emacs keeps of unsaved changes.
func ignoredName(name string) bool {
	return strings.HasPrefix(name, ".") || (len(name) > 1 && strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#"))
}

// one reads one file; found is false when it has vanished.
func (rd reader) one(path string) (r reading, found bool) {
	r.path = path
	now := time.Now()
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err != nil {
			return r, false
		}
		r.problem = "is a symbolic link to nothing"
		return r, true
	}
	if err != nil {
		r.problem = bare(err)
		return r, true
	}
	if r.problem = unreadable(info, rd.maxSize); r.problem != "" {
		return r, true
	}
	if s := stampOf(info, rd.youngest, now); s != (stamp{}) && rd.known(path, s) {
		r.same, r.stamp, r.modTime = true, s, info.ModTime()
		return r, true
	}
	rd.regular(&r, now)
	return r, true
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
	data, err := io.ReadAll(io.LimitReader(f, rd.maxSize+1))
	switch {
	case err != nil:
		r.problem = bare(err)
	case int64(len(data)) > rd.maxSize:
		r.problem = fmt.Sprintf("has more bytes than the limit of %d", rd.maxSize)
	default:
		r.data, r.modTime, r.stamp = data, info.ModTime(), stampOf(info, rd.youngest, now)
	}
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
