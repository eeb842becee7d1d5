package records

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/atomicfile"
)

// filePrefix is the beginning of the name of every file.
const filePrefix = "sha256-"

// folder holds one file per key: an image or an image ID.
type folder string

func (f folder) path(key string) string {
	return filepath.Join(string(f), fmt.Sprintf("%s%x", filePrefix, sha256.Sum256([]byte(key))))
}

// prepare makes the folder and removes what a crash left half written.
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
			if err := os.Remove(filepath.Join(string(f), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

func (f folder) write(key string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path(key), data, 0o600)
}

// exists tells whether there is a file for a key, whatever its content.
func (f folder) exists(key string) (bool, error) {
	_, err := os.Stat(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// read reads the file of a key. exists is true for one that cannot be read, too.
func (f folder) read(key string, into any) (exists bool, err error) {
	data, err := os.ReadFile(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w", f.path(key), err)
	}
	return true, nil
}

func (f folder) remove(key string) error {
	err := os.Remove(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// each calls visit with the content of every file.
func (f folder) each(visit func(file string, data []byte)) error {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), filePrefix) {
			continue
		}
		file := filepath.Join(string(f), e.Name())
		data, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		visit(file, data)
	}
	return errors.Join(errs...)
}

// understood tells whether a file is of a kind that is known here.
func understood(meta metav1.TypeMeta, kind string) error {
	if meta.Kind != kind || meta.APIVersion != version && meta.APIVersion != oldVersion {
		return fmt.Errorf("kind %q of %q is not known", meta.Kind, meta.APIVersion)
	}
	return nil
}

func parseIntent(data []byte) (intent, error) {
	var out intent
	if err := json.Unmarshal(data, &out); err != nil {
		return intent{}, err
	}
	if out.Image == "" {
		return intent{}, errors.New("image is empty")
	}
	return out, understood(out.TypeMeta, kindIntent)
}

func parseRecord(data []byte) (record, error) {
	var out record
	if err := json.Unmarshal(data, &out); err != nil {
		return record{}, err
	}
	if out.ImageRef == "" {
		return record{}, errors.New("imageRef is empty")
	}
	return out, understood(out.TypeMeta, kindRecord)
}
