// Package hostpath prepares hostPath volumes: folders, files, sockets or devices of the node.
//
// It checks a path against the volume's type, and creates the path for the types that require
// it. It mounts and unmounts no paths: the runtime binds the path into the container. Plugin
// implements volume.Plugin with it.
//
// An example that runs: ExamplePrepare in hostpath_test.go.
package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

// ErrType is returned if the path is not of the volume's type.
var ErrType = errors.New("path is not of the volume's type")

const (
	dirMode  = 0o755
	fileMode = 0o644
)

// Prepare checks the path of a hostPath volume against its type and returns the cleaned path.
// DirectoryOrCreate creates a missing folder (0755, with its parents), FileOrCreate a missing
// file (0644; its folder must exist). A volume without a type is not checked. Errors are
// volume.FieldErrors for "path" or "type".
func Prepare(source *v1.HostPathVolumeSource) (string, error) {
	if err := Validate(source); err != nil {
		return "", err
	}
	path := filepath.Clean(source.Path)
	want := v1.HostPathUnset
	if source.Type != nil {
		want = *source.Type
	}
	if err := create(path, want); err != nil {
		return "", volume.AtField("path", err)
	}
	if err := check(path, want); err != nil {
		return "", err
	}
	return path, nil
}

// Validate checks the source without access to the file system.
func Validate(source *v1.HostPathVolumeSource) error {
	switch {
	case source.Path == "":
		return volume.AtField("path", errors.New("required"))
	case !filepath.IsAbs(source.Path):
		return volume.AtField("path", fmt.Errorf("%q is not absolute", source.Path))
	case slices.Contains(strings.Split(source.Path, "/"), ".."):
		return volume.AtField("path", fmt.Errorf("%q contains \"..\"", source.Path))
	}
	if source.Type != nil {
		if _, ok := kinds[*source.Type]; !ok {
			return volume.AtField("type", fmt.Errorf("%q is unknown", *source.Type))
		}
	}
	return nil
}

// kinds maps each type to a check of the file mode. A nil check accepts all files.
var kinds = map[v1.HostPathType]func(fs.FileMode) bool{
	v1.HostPathUnset:             nil,
	v1.HostPathDirectoryOrCreate: fs.FileMode.IsDir,
	v1.HostPathDirectory:         fs.FileMode.IsDir,
	v1.HostPathFileOrCreate:      fs.FileMode.IsRegular,
	v1.HostPathFile:              fs.FileMode.IsRegular,
	v1.HostPathSocket:            func(m fs.FileMode) bool { return m&fs.ModeSocket != 0 },
	v1.HostPathCharDev:           func(m fs.FileMode) bool { return m&fs.ModeCharDevice != 0 },
	v1.HostPathBlockDev:          func(m fs.FileMode) bool { return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0 },
}

func create(path string, want v1.HostPathType) error {
	switch want {
	case v1.HostPathDirectoryOrCreate:
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return os.MkdirAll(path, dirMode)
		}
	case v1.HostPathFileOrCreate:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return f.Close()
	}
	return nil
}

func check(path string, want v1.HostPathType) error {
	accepts := kinds[want]
	if accepts == nil {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return volume.AtField("path", err)
	}
	if !accepts(info.Mode()) {
		return volume.AtField("type", fmt.Errorf("%q: %s: %w: it is %s", want, path, ErrType, info.Mode().Type()))
	}
	return nil
}
