package podsource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
)

// savedFolder has the saved set of one source.
type savedFolder struct{ dir string }

const (
	savedVersion  = 1
	savedSet      = "set"
	savedPrevious = "set.previous"
	savedSuffix   = ".pod"
)

var errDamaged = errors.New("is damaged")

// savedIndex is the content of a set file.
type savedIndex struct {
	SavedAt time.Time  `json:"savedAt"`
	Pods    []savedPod `json:"pods"`
}

// savedPod is a version of a pod.
type savedPod struct {
	UID  types.UID `json:"uid"`
	File string    `json:"file"`
}

// newSavedFolder checks that a source's name can be the name of a folder.
func newSavedFolder(dir, source string) (savedFolder, error) {
	if source == "" || strings.HasPrefix(source, ".") || strings.ContainsAny(source, "/\x00") {
		return savedFolder{}, fmt.Errorf("%q cannot be the name of a folder", source)
	}
	return savedFolder{filepath.Join(dir, source)}, nil
}

// load returns the newest complete set, or nil without one.
func (f savedFolder) load() ([]*v1.Pod, time.Time, error) {
	newest, err := f.index(savedSet)
	previous, previousErr := f.index(savedPrevious)
	switch {
	case errors.Is(previousErr, errNewer):
		return nil, time.Time{}, previousErr
	case err == nil:
	case errors.Is(err, errNewer), previousErr != nil && !errors.Is(err, iofs.ErrNotExist), !errors.Is(err, errDamaged) && !errors.Is(err, iofs.ErrNotExist):
		return nil, time.Time{}, err
	case previousErr != nil: // neither file exists
		return nil, time.Time{}, nil
	default:
		newest = previous
	}
	pods := make([]*v1.Pod, 0, len(newest.Pods))
	for _, version := range newest.Pods {
		pod, err := f.pod(version, previous)
		if err != nil {
			return nil, time.Time{}, err
		}
		pods = append(pods, pod)
	}
	return pods, newest.SavedAt, nil
}

func (f savedFolder) index(name string) (out savedIndex, err error) {
	return out, f.read(name, &out)
}

// pod reads a version of a pod, or the previous version if it is damaged.
func (f savedFolder) pod(version savedPod, previous savedIndex) (*v1.Pod, error) {
	pod := &v1.Pod{}
	err := f.read(version.File, pod)
	if err == nil && pod.UID != version.UID {
		err = fmt.Errorf("%s %w: it has the UID %q instead of %q", filepath.Join(f.dir, version.File), errDamaged, pod.UID, version.UID)
	}
	if err == nil || errors.Is(err, errNewer) {
		return pod, err
	}
	for _, other := range previous.Pods {
		if other.UID == version.UID && other.File != version.File {
			return f.pod(other, savedIndex{})
		}
	}
	return nil, err
}

// save replaces the set.
func (f savedFolder) save(pods []*v1.Pod, now time.Time) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	index := savedIndex{SavedAt: now, Pods: make([]savedPod, len(pods))}
	errs := run.Each(len(pods), func(i int) (err error) {
		index.Pods[i], err = f.savePod(pods[i])
		return err
	})
	if err := run.Join(errs...); err != nil {
		return err
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := f.keepPrevious(); err != nil {
		return err
	}
	if err := f.write(savedSet, data); err != nil {
		return err
	}
	return f.clean(index)
}

// savePod writes a version of a pod, unless it exists.
func (f savedFolder) savePod(pod *v1.Pod) (savedPod, error) {
	data, err := savedText(pod)
	if err != nil {
		return savedPod{}, err
	}
	sum := sha256.Sum256(append([]byte(pod.UID+"\n"), data...))
	version := savedPod{UID: pod.UID, File: hex.EncodeToString(sum[:16]) + savedSuffix}
	if there, err := os.ReadFile(filepath.Join(f.dir, version.File)); err == nil && string(there) == savedHeader(savedVersion, data)+string(data) {
		return version, nil
	}
	return version, f.write(version.File, data)
}

// savedText returns the content of a pod's file, without managed fields.
func savedText(pod *v1.Pod) ([]byte, error) {
	if len(pod.ManagedFields) > 0 {
		pod = pod.DeepCopy()
		pod.ManagedFields = nil
	}
	return json.Marshal(pod)
}

// keepPrevious makes the set the previous one, if it is complete.
func (f savedFolder) keepPrevious() error {
	if _, err := f.index(savedSet); err != nil {
		return nil // a damaged set is no fallback
	}
	data, err := os.ReadFile(filepath.Join(f.dir, savedSet))
	if err != nil {
		return err
	}
	return fs.WriteAtomic(filepath.Join(f.dir, savedPrevious), data, 0o600)
}

// clean removes the versions that neither set lists.
func (f savedFolder) clean(index savedIndex) error {
	wanted := map[string]bool{savedSet: true, savedPrevious: true}
	previous, _ := f.index(savedPrevious) // without it there is no fallback
	for _, version := range append(index.Pods, previous.Pods...) {
		wanted[version.File] = true
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !wanted[e.Name()] {
			errs = append(errs, os.Remove(filepath.Join(f.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

var errNewer = errors.New("has a newer format than this program reads")

func savedHeader(version int, data []byte) string {
	return fmt.Sprintf("podwright-saved %d sha256:%x\n", version, sha256.Sum256(data))
}

func (f savedFolder) write(name string, data []byte) error {
	return fs.WriteAtomic(filepath.Join(f.dir, name), append([]byte(savedHeader(savedVersion, data)), data...), 0o600)
}

// read checks the header and decodes the rest.
func (f savedFolder) read(name string, into any) error {
	path := filepath.Join(f.dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	header, rest, _ := bytes.Cut(data, []byte("\n"))
	var version int
	if _, err := fmt.Sscanf(string(header), "podwright-saved %d ", &version); err == nil && version > savedVersion {
		return fmt.Errorf("%s %w: %d", path, errNewer, version)
	}
	if string(header)+"\n" != savedHeader(savedVersion, rest) {
		return fmt.Errorf("%s %w: its checksum differs", path, errDamaged)
	}
	if err := json.Unmarshal(rest, into); err != nil {
		return fmt.Errorf("%s %w: %w", path, errDamaged, err)
	}
	return nil
}
