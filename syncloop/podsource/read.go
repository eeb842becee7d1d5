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
}

// readManifests reads a folder, or a single file. It never blocks on pipes and
// devices.
func readManifests(path string, maxSize int64) snapshot {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return snapshot{problem: "does not exist"}
	case err != nil:
		return snapshot{problem: bare(err), unknown: true}
	case info.Mode().IsRegular():
		file, found := readManifest(path, maxSize)
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
		if file, found := readManifest(filepath.Join(path, entry.Name()), maxSize); found {
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

// readManifest reads one file; found is false when it has vanished.
func readManifest(path string, maxSize int64) (r reading, found bool) {
	r.path = path
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
	if r.problem = unreadable(info, maxSize); r.problem != "" {
		return r, true
	}
	r.data, r.modTime, r.problem = readRegular(path, maxSize)
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

// readRegular reads a file that was regular a moment ago. It looks again once the
// file is open, and opens it in a way that does not wait for the other end of a
// pipe.
func readRegular(path string, maxSize int64) (data []byte, modTime time.Time, problem string) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, modTime, bare(err)
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return nil, modTime, bare(err)
	}
	if problem := unreadable(info, maxSize); problem != "" {
		return nil, modTime, problem
	}
	data, err = io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, modTime, bare(err)
	}
	if int64(len(data)) > maxSize {
		return nil, modTime, fmt.Sprintf("has more bytes than the limit of %d", maxSize)
	}
	return data, info.ModTime(), ""
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
