package podsource

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/files"
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
type folderID = files.ID

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
type stamp = files.Stamp

// reader reads manifests.
type reader struct{ files.Reader }

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
		return listing{snapshot: snapshot{problem: files.Bare(err), unknown: true}}
	case info.Mode().IsRegular():
		return listing{snapshot: snapshot{folder: files.IDOf(info)}, requests: []request{{path: path}}}
	case !info.IsDir():
		return listing{snapshot: snapshot{problem: "is " + files.Describe(info.Mode()) + ", neither a folder nor a file", unknown: true}}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return listing{snapshot: snapshot{problem: files.Bare(err), unknown: true}}
	}
	l := listing{snapshot: snapshot{folder: files.IDOf(info)}, requests: make([]request, 0, len(entries))}
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
func (rd reader) one(q request) reading {
	r := rd.Read(q.path, q.known)
	return reading{
		path: q.path, data: r.Data, modTime: r.ModTime, problem: r.Problem,
		stamp: r.Stamp, same: r.Same, vanished: r.Vanished,
	}
}
