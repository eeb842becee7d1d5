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

// Record is what is kept of a pod.
type Record struct {
	// Status is the status that was computed last.
	Status v1.PodStatus `json:"status"`
	// Probes are the results of its probes that were known, in any order:
	// probe.Manager.Results.
	Probes probe.Results `json:"probes,omitempty"`
	// HeldBack are its containers that were held back after crashes, by name, each with
	// what its back-off belongs to: pods.Manager.HeldBack of package cri/pods. When they
	// ended, and how often, is in Status.
	HeldBack map[string]string `json:"heldBack,omitempty"`
}

// Errors to test for. Those of the file system are wrapped as they are:
// fs.ErrNotExist says that there is no file, or no folder for it.
var (
	// ErrCorrupt is a file that cannot be used: damaged, of another pod, of another
	// version, too large, or not a file.
	ErrCorrupt = errors.New("the file cannot be used")
	// ErrTooLarge is a record above the size limit of 1 MiB.
	ErrTooLarge = errors.New("the record is too large")
)

// maxSize is the limit of a file in bytes: a hundred times the size of a pod with ten
// containers.
const maxSize = 1 << 20

// asideSuffix is added to the name of a file that cannot be used, tmpSuffix to that of
// one that is not complete yet. Both names are the same each time, so that however
// often an agent is killed there is one of each.
const (
	asideSuffix = ".corrupt"
	tmpSuffix   = ".tmp"
)

// Config configures a Store. File is required.
type Config struct {
	// File returns where the record of a pod is: an absolute path in a folder that is
	// there as long as the pod is. It is called often and must always say the same.
	File func(types.UID) string
	// Sync makes Save wait until the disk has the record, so that a power cut does not
	// cost it. See the package documentation.
	Sync bool
}

// Store reads and writes the records of pods. Its methods may be called by any number
// of goroutines; those for one pod wait for each other. Use New.
type Store struct {
	cfg  Config
	seed maphash.Seed

	mu   sync.Mutex
	pods map[types.UID]*entry
}

// entry is what the Store knows of one pod's file.
type entry struct {
	users int // guarded by Store.mu: those who hold the entry or wait for it

	mu    sync.Mutex
	known bool   // sum is that of the file
	sum   uint64 // of the record in the file
}

// New checks the configuration. It does not look at any file.
func New(cfg Config) (*Store, error) {
	if err := fields.Required("checkpoint: Config.File", cfg.File); err != nil {
		return nil, err
	}
	return &Store{cfg: cfg, seed: maphash.MakeSeed(), pods: map[types.UID]*entry{}}, nil
}

// hold locks what is known of a pod. release unlocks it, and forgets an entry that
// says nothing.
func (s *Store) hold(uid types.UID) (e *entry, release func()) {
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
		known := e.known
		e.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.users--; e.users == 0 && !known {
			delete(s.pods, uid)
		}
	}
}

// Save replaces the record of a pod. It writes nothing if the record says what the
// file says; the LastProbeTime of conditions says nothing and is not kept. Of a record
// that is too large the messages of conditions are shortened first, then it is
// ErrTooLarge, and the file stays as it was. A folder that is not there is
// fs.ErrNotExist.
func (s *Store) Save(uid types.UID, r Record) error {
	return s.SaveNewest(uid, func() (Record, bool) { return r, true })
}

// SaveNewest is Save for a record that several goroutines change: newest is called
// when it is this caller's turn, so that an older record never replaces a newer one.
// false saves nothing. newest must not call the Store.
func (s *Store) SaveNewest(uid types.UID, newest func() (Record, bool)) error {
	e, release := s.hold(uid)
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
	if e.known && e.sum == sum {
		return nil
	}
	e.known = false
	if err := s.replace(path, data); err != nil {
		return fmt.Errorf("checkpoint: pod %s: save: %w", uid, err)
	}
	e.known, e.sum = true, sum
	return nil
}

// Load returns the record of a pod. Without one it is fs.ErrNotExist; a file that
// cannot be used is ErrCorrupt and is set aside.
func (s *Store) Load(uid types.UID) (Record, error) {
	e, release := s.hold(uid)
	defer release()
	e.known = false
	path := s.cfg.File(uid)
	r, record, err := read(path, uid)
	switch {
	case errors.Is(err, ErrCorrupt):
		err = errors.Join(err, setAside(path))
		return Record{}, fmt.Errorf("checkpoint: pod %s: load %s: %w", uid, path, err)
	case err != nil:
		return Record{}, fmt.Errorf("checkpoint: pod %s: load: %w", uid, err)
	}
	e.known, e.sum = true, maphash.Bytes(s.seed, record)
	return r, nil
}

// Remove removes the record of a pod, and what was set aside of it. It is no error
// that there is none. Whoever removes the folder calls Remove first: Save would
// otherwise believe that the record is still there.
func (s *Store) Remove(uid types.UID) error {
	e, release := s.hold(uid)
	defer release()
	e.known = false
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

// read reads and decodes a file. What is not a file is not opened: a pipe would wait
// for a writer.
func read(path string, uid types.UID) (Record, []byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Record{}, nil, err
	}
	if !info.Mode().IsRegular() {
		return Record{}, nil, fmt.Errorf("%w: it is no regular file", ErrCorrupt)
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
		return Record{}, nil, fmt.Errorf("%w: it is larger than %d bytes", ErrCorrupt, maxSize)
	}
	return decode(data, uid)
}

// setAside keeps a file that cannot be used for whoever wants to know why, in place
// of one that was kept before.
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

// private is the mode of the files: a status holds what containers have written.
const private = 0o600

// replace puts a file in the place of another one.
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
