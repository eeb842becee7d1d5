package checkpoint

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/probe"
)

// Record is the stored state of a pod.
type Record struct {
	// Status is the last computed status.
	Status v1.PodStatus `json:"status"`
	// Probes are the pod's probe results, in any order: probe.Manager.Results.
	Probes probe.Results `json:"probes,omitempty"`
	// HeldBack has the containers in back-off after crashes, by name, with the identity of their
	// back-off: pods.Manager.HeldBack of package cri/pods. Status has the times and numbers of
	// their ends.
	HeldBack map[string]string `json:"heldBack,omitempty"`
}

// Errors of a Store. Errors of the file system are wrapped, too: fs.ErrNotExist means that the
// file or its folder does not exist.
var (
	// ErrCorrupt means that a file is unusable: damaged, of another pod, of another version, too
	// large, or not a regular file.
	ErrCorrupt = errors.New("unusable file")
	// ErrTooLarge means that a record exceeds 1 MiB.
	ErrTooLarge = errors.New("record too large")
)

// maxSize is the maximum size of a file in bytes: a hundred times the size for a pod with ten
// containers.
const maxSize = 1 << 20

// asideSuffix is added to the name of an unusable file, tmpSuffix to the name of an incomplete
// one. The names are constant, so that repeated kills of an agent leave at most one of each.
const (
	asideSuffix = ".corrupt"
	tmpSuffix   = ".tmp"
)

// Config configures a Store. File is required.
type Config struct {
	// File returns the path of a pod's record: absolute, in a folder that exists as long as the
	// pod. It is called often and must always return the same path.
	File func(types.UID) string
	// Sync makes Save wait until the record is on the disk, so that it survives a power cut. See
	// the package documentation.
	Sync bool
}

// Store reads and writes the records of pods. It is safe for concurrent use; calls for one pod
// wait for each other. Use New.
type Store struct {
	cfg  Config
	seed maphash.Seed

	mu   sync.Mutex
	pods map[types.UID]*entry
}

// entry is the Store's state of one pod's file.
type entry struct {
	users int // guarded by Store.mu: the number of calls that use the entry

	mu    sync.Mutex
	valid bool   // sum is valid
	sum   uint64 // of the record in the file
}

// New returns a Store. It returns an error if File is nil. It reads no file.
func New(cfg Config) (*Store, error) {
	if err := fields.Required("checkpoint: Config.File", cfg.File); err != nil {
		return nil, err
	}
	return &Store{cfg: cfg, seed: maphash.MakeSeed(), pods: map[types.UID]*entry{}}, nil
}

// lock locks the entry of a pod. release unlocks it, and drops an entry without information.
func (s *Store) lock(uid types.UID) (e *entry, release func()) {
	s.mu.Lock()
	e = s.pods[uid]
	if e == nil {
		e = &entry{}
		s.pods[uid] = e
	}
	e.users++
	s.mu.Unlock()
	e.mu.Lock()
	return e, func() {
		valid := e.valid
		e.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.users--; e.users == 0 && !valid {
			delete(s.pods, uid)
		}
	}
}

// Save replaces the record of a pod. It skips the write if the file already has an equal record;
// LastProbeTime of conditions is ignored and not stored. If a record is too large, the messages
// of its conditions are shortened. If that is not enough, Save returns ErrTooLarge and the file
// stays unchanged. It returns fs.ErrNotExist if the folder does not exist.
func (s *Store) Save(uid types.UID, r Record) error {
	return s.saveNewest(uid, func() (Record, bool) { return r, true })
}

// saveNewest is Save for a record that several goroutines change: it calls newest under the pod's
// lock, so that an older record never replaces a newer one. If newest returns false, no record is
// saved. newest must not call the Store.
func (s *Store) saveNewest(uid types.UID, newest func() (Record, bool)) error {
	e, release := s.lock(uid)
	defer release()
	r, ok := newest()
	if !ok {
		return nil
	}
	path := s.cfg.File(uid)
	data, record, err := encode(uid, r)
	if err != nil {
		return fmt.Errorf("checkpoint: pod %s: save %s: %w", uid, path, err)
	}
	sum := maphash.Bytes(s.seed, record)
	if e.valid && e.sum == sum {
		return nil
	}
	e.valid = false
	if err := s.replace(path, data); err != nil {
		return fmt.Errorf("checkpoint: pod %s: save: %w", uid, err)
	}
	e.valid, e.sum = true, sum
	return nil
}

// Load returns the record of a pod. Its error wraps fs.ErrNotExist without a record, and
// ErrCorrupt for an unusable file, which it sets aside.
func (s *Store) Load(uid types.UID) (Record, error) {
	e, release := s.lock(uid)
	defer release()
	e.valid = false
	path := s.cfg.File(uid)
	r, record, err := read(path, uid)
	switch {
	case errors.Is(err, ErrCorrupt):
		err = errors.Join(err, setAside(path))
		return Record{}, fmt.Errorf("checkpoint: pod %s: load %s: %w", uid, path, err)
	case err != nil:
		return Record{}, fmt.Errorf("checkpoint: pod %s: load: %w", uid, err)
	}
	e.valid, e.sum = true, maphash.Bytes(s.seed, record)
	return r, nil
}

// Remove removes the record of a pod, including a file that was set aside. A missing record is no
// error. Call Remove before the removal of the folder; otherwise Save may skip a write in the
// belief that the record still exists.
func (s *Store) Remove(uid types.UID) error {
	e, release := s.lock(uid)
	defer release()
	e.valid = false
	path := s.cfg.File(uid)
	var errs []error
	for _, file := range []string{path, path + tmpSuffix, path + asideSuffix} {
		if err := os.RemoveAll(file); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("checkpoint: pod %s: remove: %w", uid, err)
	}
	return nil
}

// read reads and decodes a file. It does not open special files, because a pipe would block.
func read(path string, uid types.UID) (Record, []byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Record{}, nil, err
	}
	if !info.Mode().IsRegular() {
		return Record{}, nil, fmt.Errorf("%w: not a regular file", ErrCorrupt)
	}
	f, err := os.Open(path)
	if err != nil {
		return Record{}, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return Record{}, nil, err
	}
	if len(data) > maxSize {
		return Record{}, nil, fmt.Errorf("%w: larger than %d bytes", ErrCorrupt, maxSize)
	}
	return decode(data, uid)
}

// setAside renames an unusable file for later analysis. It replaces an earlier one.
func setAside(path string) error {
	aside := path + asideSuffix
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := os.Rename(path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// private is the mode of the files, because a status contains output of containers.
const private = 0o600

func (s *Store) replace(path string, data []byte) (err error) {
	tmp := path + tmpSuffix
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, private)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp))
		}
	}()
	_, err = f.Write(data)
	if err == nil && s.cfg.Sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(tmp, path); err != nil || !s.cfg.Sync {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
