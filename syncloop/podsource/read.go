package podsource

import (
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/fs"
)

// snapshot is the state of a folder of manifests, or one manifest, at one time.
type snapshot struct {
	// files are the entries, except those with ignored names.
	files []reading
	// folder identifies the folder or file at the path.
	folder folderID
	// problem is an error of the path itself.
	problem string
	// unknown is true if the path exists and could not be listed, so that the existing files are
	// unknown. missing is true if the path does not exist.
	unknown, missing bool
}

// folderID identifies the object at a path. Zero means unknown.
type folderID = fs.ID

// reading is the content of one file, or the reason why it has none.
type reading struct {
	path    string
	data    []byte
	modTime time.Time
	problem string
	// stamp is the stamp of the version that was read. same is true if the stamp equals the
	// previous one and the file was not read again.
	stamp stamp
	same  bool
	// dangling is true for a link to a missing file, with a problem.
	dangling bool
	// unresponsive is true for a read that has not returned: the content is unknown.
	unresponsive bool
}

// stamp identifies one version of a file by the metadata of the file system.
type stamp = fs.Stamp

// listing is the list of files at a path.
type listing struct {
	snapshot
	keys []fs.Key
}

func list(path string) listing {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return listing{snapshot: snapshot{problem: "does not exist", missing: true}}
	case err != nil:
		return listing{snapshot: snapshot{problem: fs.Bare(err), unknown: true}}
	case info.Mode().IsRegular():
		return listing{snapshot: snapshot{folder: fs.IDOf(info)}, keys: []fs.Key{{Path: path}}}
	case !info.IsDir():
		return listing{snapshot: snapshot{problem: "is " + fs.Describe(info.Mode()) + ", neither a folder nor a file", unknown: true}}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return listing{snapshot: snapshot{problem: fs.Bare(err), unknown: true}}
	}
	l := listing{snapshot: snapshot{folder: fs.IDOf(info)}, keys: make([]fs.Key, 0, len(entries))}
	for _, entry := range entries {
		if !ignoredName(entry.Name()) {
			l.keys = append(l.keys, fs.KeyOf(filepath.Join(path, entry.Name()), entry))
		}
	}
	return l
}

// ignoredName reports whether an entry of a folder is no manifest: a hidden file, or an Emacs
// auto-save file.
func ignoredName(name string) bool {
	return strings.HasPrefix(name, ".") || (len(name) > 1 && strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#"))
}

// manifestReader reads a folder of manifests, or one manifest. No read delays other reads.
type manifestReader struct {
	path     string
	reader   fs.Reader
	listings fs.Reads[listing]
	readings fs.Reads[fs.Reading]
	// Tests replace these.
	list func(path string) listing
	read func(path string, known stamp) fs.Reading
}

func newManifestReader(path string) *manifestReader {
	f := &manifestReader{path: path, reader: fs.Reader{MaxSize: maxSize, Youngest: minStableAge}, list: list}
	f.read = func(path string, known stamp) fs.Reading { return f.reader.Read(path, known) }
	return f
}

// snapshot reads all files. stampOf returns the stamp of the version of a file that need not be read
// again.
func (f *manifestReader) snapshot(stampOf func(path string) stamp) snapshot {
	list, read := f.list, f.read
	l := f.listings.All([]fs.Key{{Path: f.path}}, func(int) listing { return list(f.path) })[0]
	if l == nil {
		return snapshot{problem: fs.Silence, unknown: true}
	}
	keys, stamps := l.keys, make([]stamp, len(l.keys))
	for i, k := range keys {
		stamps[i] = stampOf(k.Path)
	}
	for i, r := range f.readings.All(keys, func(i int) fs.Reading { return read(keys[i].Path, stamps[i]) }) {
		switch {
		case r == nil:
			l.files = append(l.files, unresponsive(keys[i].Path))
		case !r.Vanished:
			l.files = append(l.files, reading{
				path: keys[i].Path, data: r.Data, modTime: r.ModTime, problem: r.Problem, dangling: r.Dangling, stamp: r.Stamp, same: r.Same,
			})
		}
	}
	return l.snapshot
}

func unresponsive(path string) reading {
	return reading{path: path, problem: fs.Silence, unresponsive: true}
}

// join waits until all reads have returned, for limit at most, and returns the paths of those that
// have not.
func (f *manifestReader) join(limit time.Duration) []string {
	deadline := time.Now().Add(limit)
	return append(f.listings.Wait(limit), f.readings.Wait(time.Until(deadline))...)
}
