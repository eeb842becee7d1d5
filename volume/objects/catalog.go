package objects

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume"
)

// Problem describes an unusable file or folder of a Dir.
type Problem struct {
	// Path is the path of the file or folder.
	Path string `json:"path"`
	// Message is the error, with the field if there is one.
	Message string `json:"message"`
	// KeptLastGood is true if an earlier valid version is served.
	KeptLastGood bool `json:"keptLastGood,omitempty"`
	// NoAnswer is true if the content is unknown: the file blocks its readers, or the folder
	// cannot be listed.
	NoAnswer bool `json:"noAnswer,omitempty"`
}

// removalDelay is the time after which a missing file counts as removed. Editors move files away and
// back.
const removalDelay = 250 * time.Millisecond

// catalog is the state of the files of a folder. It has no clock and does no I/O.
type catalog struct {
	files map[string]*entry // by path below the folder
	// objects maps each object with a valid version to its file.
	objects map[volume.Object]*entry
	folders map[string]Problem
	// strays are problems of files that are no objects.
	strays []Problem
}

type entry struct {
	path   string
	object volume.Object
	value  any // last valid version, or nil
	// immutable is true if value stays constant as long as the file exists.
	immutable bool
	stamp     stamp
	digest    [sha256.Size]byte
	decoded   bool // digest is of the current content
	bad       string
	silent    bool
	goneSince time.Time
}

type snapshot struct {
	files map[string]reading
	// folders has the folders that could not be listed. Their content is unknown.
	folders map[string]Problem
}

// reading is the content of one file, or the reason why there is none.
type reading struct {
	data    []byte
	stamp   stamp
	modTime time.Time
	problem string
	// same is true if the file need not be read, or if its stamp is unchanged since the last
	// read.
	same bool
	// vanished is true if the file was removed before the read, silent if the read blocks. The
	// content is then unknown.
	vanished, silent bool
}

func newCatalog() *catalog {
	return &catalog{files: map[string]*entry{}, objects: map[volume.Object]*entry{}}
}

// objectOf returns the object and the kind of the file at a path.
func objectOf(file string) (volume.Object, kind, error) {
	parts := strings.Split(file, "/")
	k, ok := kinds[parts[0]]
	if !ok {
		return volume.Object{}, k, fmt.Errorf("folder %q: must be one of %s", parts[0], strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	o := volume.Object{Kind: k.reported}
	want := 3
	if k.cluster {
		want = 2
	}
	if len(parts) != want {
		return o, k, fmt.Errorf("the file of a %s must be %d folders deep", k.name, want-1)
	}
	if !k.cluster {
		o.Namespace = parts[1]
		if faults := validation.IsDNS1123Label(o.Namespace); len(faults) > 0 {
			return o, k, fmt.Errorf("namespace %.80q: %s", o.Namespace, strings.Join(faults, "; "))
		}
	}
	name, ok := strings.CutSuffix(path.Base(file), ".yaml")
	if !ok {
		return o, k, fmt.Errorf("the file name must end with .yaml")
	}
	o.Name = name
	if faults := validation.IsDNS1123Subdomain(strings.ReplaceAll(name, ":", ".")); len(faults) > 0 || !k.cluster && strings.Contains(name, ":") {
		return o, k, fmt.Errorf("name %.80q: not a valid name of a %s", name, k.name)
	}
	return o, k, nil
}

// lastStamp returns the stamp of the last version of a file, and whether the file is immutable.
func (c *catalog) lastStamp(file string) (s stamp, immutable bool) {
	e := c.files[file]
	if e == nil || !e.decoded {
		return stamp{}, false
	}
	return e.stamp, e.immutable
}

// apply updates the catalog from a snapshot. busy returns the time for which a file with this
// modification time must not be used because it is being written. apply returns the changed
// objects and the delay until the next scan; 0 means no scan without a change.
func (c *catalog) apply(s snapshot, busy func(path string, modTime time.Time) time.Duration, now time.Time) (changed []volume.Object, recheck time.Duration) {
	recheckIn := func(d time.Duration) {
		if recheck == 0 || d < recheck {
			recheck = max(d, time.Millisecond)
		}
	}
	c.folders, c.strays = s.folders, nil
	for _, file := range slices.Sorted(maps.Keys(s.files)) {
		r := s.files[file]
		if r.vanished {
			continue
		}
		o, k, err := objectOf(file)
		if err != nil {
			c.strays = append(c.strays, Problem{Path: file, Message: err.Error()})
			continue
		}
		e := c.files[file]
		if e == nil {
			e = &entry{path: file, object: o}
			c.files[file] = e
		}
		e.goneSince, e.silent = time.Time{}, r.silent
		if r.silent {
			recheckIn(retry)
			continue
		}
		updated, wait := e.update(r, k, func() time.Duration { return busy(file, r.modTime) })
		if wait > 0 {
			recheckIn(wait)
		}
		if updated {
			c.objects[o] = e
			changed = append(changed, o)
		}
	}
	for file, e := range c.files {
		if r, listed := s.files[file]; listed && !r.vanished || c.unknown(file) {
			continue
		}
		if e.goneSince.IsZero() {
			e.goneSince = now
		}
		if remaining := removalDelay - now.Sub(e.goneSince); remaining > 0 {
			recheckIn(remaining)
			continue
		}
		delete(c.files, file)
		if c.objects[e.object] == e {
			delete(c.objects, e.object)
			changed = append(changed, e.object)
		}
	}
	if len(s.folders) > 0 {
		recheckIn(retry)
	}
	slices.SortFunc(changed, func(a, b volume.Object) int { return cmp.Compare(a.String(), b.String()) })
	return changed, recheck
}

// unknown reports whether a file is in a folder that could not be listed.
func (c *catalog) unknown(file string) bool {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if _, ok := c.folders[dir]; ok {
			return true
		}
		if dir == "." {
			return false
		}
	}
}

// update decodes one version of a file and reports whether the object has changed.
func (e *entry) update(r reading, k kind, busy func() time.Duration) (changed bool, wait time.Duration) {
	switch {
	case r.same:
		return false, 0
	case r.problem != "":
		e.bad, e.decoded = r.problem, false
		return false, 0
	}
	digest := sha256.Sum256(r.data)
	if e.decoded && digest == e.digest {
		e.stamp = r.stamp
		return false, 0
	}
	if wait := busy(); wait > 0 {
		return false, wait
	}
	unchanged := digest == e.digest // valid again with the same content
	e.decoded = true
	value, immutable, err := k.object(r.data, e.object)
	e.digest, e.stamp = digest, r.stamp
	if err != nil {
		e.bad = err.Error()
		return false, 0
	}
	e.value, e.immutable, e.bad = value, immutable, ""
	return !unchanged, 0
}

// problems lists the unusable files and folders by path.
func (c *catalog) problems() []Problem {
	out := slices.Concat(c.strays, slices.Collect(maps.Values(c.folders)))
	for file, e := range c.files {
		p := Problem{Path: file, Message: e.bad, KeptLastGood: e.value != nil, NoAnswer: e.silent}
		if e.silent {
			p.Message = fs.Silence
		}
		if p.Message != "" {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// find returns the value of an object. It returns NotFound only if the object certainly has no
// file.
func (c *catalog) find(o volume.Object) (any, error) {
	if e := c.objects[o]; e != nil {
		return e.value, nil
	}
	for folder, k := range kinds {
		if k.reported != o.Kind {
			continue
		}
		file := path.Join(folder, o.Namespace, o.Name+".yaml")
		if e := c.files[file]; e != nil {
			why := e.bad
			switch {
			case e.silent:
				why = fs.Silence
			case why == "":
				why = "is still being written"
			}
			return nil, fmt.Errorf("%s: %s: %s", o, file, why)
		}
		if c.unknown(file) {
			return nil, fmt.Errorf("%s: %s: its folder cannot be listed", o, file)
		}
	}
	return nil, NotFound(o)
}
