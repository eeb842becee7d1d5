package projected

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// Names that are reserved for writePayload.
const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
	stampFormat = "2006_01_02_15_04_05"
	folderMode  = 0o755
)

// version matches the name of a version's folder.
var version = regexp.MustCompile(`^\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+$`)

type writeOptions struct {
	// Prepare is called with the folder of a new version before it is visible, to change its
	// ownership. If it fails, the version is discarded. Optional.
	Prepare func(dir string) error
	// Chown sets a file's Owner. Default: a system call.
	Chown func(f *os.File, uid int) error
	// Leave lists names in dir whose folders stay and take precedence over the payload, because
	// other volumes are mounted there.
	Leave map[string]bool
	// step is called before each step of writePayload. If it returns an error, the step fails
	// with it.
	step func(what string) error
}

// writePayload makes the payload the content of the existing folder dir and reports whether it
// wrote a new version. If the files have the same content already, it only creates missing
// links. It ignores modes and owners of such files, as other kubelets do: a change of
// defaultMode alone changes no file.
//
// After an error dir has either the complete old version or the complete new one. Calls for one
// folder must not overlap.
func writePayload(dir string, p payload, o writeOptions) (changed bool, err error) {
	clean, err := p.check()
	if err != nil {
		return false, err
	}
	if o.step == nil {
		o.step = func(string) error { return nil }
	}
	if o.Chown == nil {
		o.Chown = func(f *os.File, uid int) error { return f.Chown(uid, -1) }
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	w := &writer{root: root, payload: clean, writeOptions: o}
	return w.write()
}

type writer struct {
	writeOptions
	root    *os.Root
	payload payload
}

func (w *writer) write() (changed bool, err error) {
	current, err := w.current()
	if err != nil {
		return false, err
	}
	if current == "" || !w.hasPayload(current) {
		if err := w.clear(current); err != nil { // frees space on a full disk
			return false, err
		}
		next, err := w.newVersion()
		if err != nil {
			return false, err
		}
		if err := w.publish(next); err != nil {
			return false, run.Join(err, w.root.RemoveAll(newDataLink), w.root.RemoveAll(next))
		}
		current, changed = next, true
	}
	// The new version is published. The next call repeats the following steps if they fail.
	if err := w.makeLinks(); err != nil {
		return changed, err
	}
	if err := w.dropLinks(); err != nil {
		return changed, err
	}
	return changed, w.clear(current)
}

// current returns the folder of the published version, or "".
func (w *writer) current() (string, error) {
	target, err := w.root.Readlink(dataLink)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EINVAL): // EINVAL: no link
		return "", nil
	case err != nil:
		return "", err
	case !version.MatchString(target):
		return "", nil
	}
	return target, nil
}

// hasPayload reports whether a version has exactly the files of the payload. An unreadable file
// counts as different.
func (w *writer) hasPayload(dir string) bool {
	files := 0
	var equalFolder func(name string) bool
	equalFolder = func(name string) bool {
		entries, err := w.readDir(path.Join(dir, name))
		if err != nil || name != "" && len(entries) == 0 {
			return false
		}
		for _, e := range entries {
			below := path.Join(name, e.Name())
			switch {
			case e.IsDir():
				if !equalFolder(below) {
					return false
				}
			case !w.same(dir, below):
				return false
			default:
				files++
			}
		}
		return true
	}
	return equalFolder("") && files == len(w.payload)
}

func (w *writer) readDir(name string) ([]fs.DirEntry, error) {
	f, err := w.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// same reports whether a file of a version has the content of the payload.
func (w *writer) same(dir, name string) bool {
	want, ok := w.payload[name]
	full := path.Join(dir, name)
	info, err := w.root.Lstat(full)
	if !ok || err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(want.Data)) {
		return false
	}
	f, err := w.root.Open(full)
	if err != nil {
		return false
	}
	defer f.Close()
	have, err := io.ReadAll(io.LimitReader(f, int64(len(want.Data))+1))
	return err == nil && bytes.Equal(have, want.Data)
}

// newVersion writes the payload to a new folder and returns its name. After an error the folder
// is removed.
func (w *writer) newVersion() (name string, err error) {
	if err := w.step("new folder"); err != nil {
		return "", err
	}
	for {
		name = fmt.Sprintf("..%s.%d", time.Now().UTC().Format(stampFormat), rand.Uint32())
		err := w.root.Mkdir(name, folderMode)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	if err := w.fill(name); err != nil {
		return "", run.Join(err, w.root.RemoveAll(name))
	}
	return name, nil
}

func (w *writer) fill(dir string) error {
	if err := w.root.Chmod(dir, folderMode); err != nil { // mkdir applies the umask
		return err
	}
	created := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(w.payload)) {
		if err := w.folders(dir, path.Dir(name), created); err != nil {
			return err
		}
		if err := w.file(path.Join(dir, name), w.payload[name]); err != nil {
			return err
		}
	}
	if err := w.step("prepare"); err != nil || w.Prepare == nil {
		return err
	}
	return w.Prepare(path.Join(w.root.Name(), dir))
}

// folders creates a folder of a version with its parents.
func (w *writer) folders(dir, name string, created map[string]bool) error {
	if created[name] {
		return nil
	}
	created[name] = true
	if err := w.folders(dir, path.Dir(name), created); err != nil {
		return err
	}
	if err := w.step("folder " + name); err != nil {
		return err
	}
	full := path.Join(dir, name)
	if err := w.root.Mkdir(full, folderMode); err != nil {
		return err
	}
	return w.root.Chmod(full, folderMode)
}

func (w *writer) file(full string, content payloadFile) error {
	if err := w.step("create " + path.Base(full)); err != nil {
		return err
	}
	f, err := w.root.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = w.contents(f, content)
	return run.Join(err, f.Close()) // some file systems report a full disk only at close
}

func (w *writer) contents(f *os.File, content payloadFile) error {
	if err := w.step("write " + path.Base(f.Name())); err != nil {
		return err
	}
	if _, err := f.Write(content.Data); err != nil {
		return err
	}
	if content.Owner != nil {
		if err := w.Chown(f, int(*content.Owner)); err != nil {
			return err
		}
	}
	return f.Chmod(fs.FileMode(content.Mode))
}

// publish makes a version visible.
func (w *writer) publish(next string) error {
	if err := w.step("new link"); err != nil {
		return err
	}
	if err := w.root.RemoveAll(newDataLink); err != nil { // a crash may leave one
		return err
	}
	if err := w.root.Symlink(next, newDataLink); err != nil {
		return err
	}
	if err := w.step("swap"); err != nil {
		return err
	}
	if info, err := w.root.Lstat(dataLink); err == nil && info.IsDir() { // a foreign folder, which would block the rename
		if err := w.root.RemoveAll(dataLink); err != nil {
			return err
		}
	}
	return w.root.Rename(newDataLink, dataLink)
}

// makeLinks creates the links in dir to the top-level files and folders of the version.
func (w *writer) makeLinks() error {
	done := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(w.payload)) {
		name := top(file)
		if done[name] {
			continue
		}
		done[name] = true
		if target, err := w.root.Readlink(name); err == nil && target == linkTo(name) {
			continue
		}
		if info, err := w.root.Lstat(name); err == nil && info.IsDir() && w.Leave[name] {
			continue
		}
		if err := w.step("link " + name); err != nil {
			return err
		}
		if err := w.root.RemoveAll(name); err != nil {
			return err
		}
		if err := w.root.Symlink(linkTo(name), name); err != nil {
			return err
		}
	}
	return nil
}

func linkTo(name string) string { return path.Join(dataLink, name) }

// dropLinks removes links whose target is not in the payload.
func (w *writer) dropLinks() error {
	linked := map[string]bool{}
	for file := range w.payload {
		linked[top(file)] = true
	}
	entries, err := w.readDir(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, "..") || linked[name] {
			continue
		}
		if target, err := w.root.Readlink(name); err != nil || target != linkTo(name) {
			continue
		}
		if err := w.step("unlink " + name); err != nil {
			return err
		}
		if err := w.root.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// clear removes all versions except keep, and remains of a crash.
func (w *writer) clear(keep string) error {
	entries, err := w.readDir(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if name == keep || name != newDataLink && !version.MatchString(name) {
			continue
		}
		if err := w.step("remove " + name); err != nil {
			return err
		}
		if err := w.root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}
