package records

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/fs"
)

const filePrefix = "sha256-"

// folder has one file per key: an image or an image ID.
type folder string

func (f folder) path(key string) string {
	return filepath.Join(string(f), fmt.Sprintf("%s%x", filePrefix, sha256.Sum256([]byte(key))))
}

// prepare creates the folder and removes unfinished files of a crash.
func (f folder) prepare() error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "."+filePrefix) {
			if err := os.Remove(filepath.Join(string(f), e.Name())); err != nil && !errors.Is(err, iofs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// shelf is a folder with its contents in memory, read once.
type shelf[T any] struct {
	folder  folder
	parse   func(data []byte) (key string, value T, err error)
	entries map[string]T
	// bad are the errors of unreadable files, by path.
	bad map[string]error
}

// load prepares the folder and reads it. Unreadable files stay unchanged.
func (s *shelf[T]) load() error {
	s.entries, s.bad = map[string]T{}, map[string]error{}
	if err := s.folder.prepare(); err != nil {
		return err
	}
	entries, err := os.ReadDir(string(s.folder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filePrefix) {
			continue
		}
		file := filepath.Join(string(s.folder), e.Name())
		if err := s.read(file); err != nil {
			s.bad[file] = fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func (s *shelf[T]) read(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	key, value, err := s.parse(data)
	if err == nil && s.folder.path(key) != file {
		err = errors.New("the file name does not match the content")
	}
	if err == nil {
		s.entries[key] = value
	}
	return err
}

// get returns the value of a key, or an error if its file is unreadable.
func (s *shelf[T]) get(key string) (value T, known bool, err error) {
	if value, known = s.entries[key]; !known && len(s.bad) > 0 {
		err = s.bad[s.folder.path(key)]
	}
	return value, known, err
}

// put writes the file of a key. It replaces an unreadable one.
func (s *shelf[T]) put(key string, value T) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	file := s.folder.path(key)
	if err := fs.WriteAtomic(file, data, 0o600); err != nil {
		return err
	}
	delete(s.bad, file)
	s.entries[key] = value
	return nil
}

func (s *shelf[T]) remove(key string) error {
	file := s.folder.path(key)
	if err := os.Remove(file); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	delete(s.bad, file)
	delete(s.entries, key)
	return nil
}

// checkKind returns an error unless a file has the kind and a supported version.
func checkKind(meta metav1.TypeMeta, kind string) error {
	if meta.Kind != kind || meta.APIVersion != version && meta.APIVersion != oldVersion {
		return fmt.Errorf("kind %q of apiVersion %q is not supported", meta.Kind, meta.APIVersion)
	}
	return nil
}

func parseIntent(data []byte) (string, intent, error) {
	var out intent
	if err := json.Unmarshal(data, &out); err != nil {
		return "", intent{}, err
	}
	if out.Image == "" {
		return "", intent{}, errors.New("image is empty")
	}
	return out.Image, out, checkKind(out.TypeMeta, kindIntent)
}

func parseRecord(data []byte) (string, record, error) {
	var out record
	if err := json.Unmarshal(data, &out); err != nil {
		return "", record{}, err
	}
	if out.ImageRef == "" {
		return "", record{}, errors.New("imageRef is empty")
	}
	return out.ImageRef, out, checkKind(out.TypeMeta, kindRecord)
}

func parsePreloaded(data []byte) (string, preloadedNames, error) {
	var out preloadedNames
	if err := json.Unmarshal(data, &out); err != nil {
		return "", preloadedNames{}, err
	}
	if out.ImageRef == "" {
		return "", preloadedNames{}, errors.New("imageRef is empty")
	}
	return out.ImageRef, out, nil
}
