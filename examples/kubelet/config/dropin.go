package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// readFiles reads the configuration file, if there is one, and merges every *.conf file below dir
// into it, in the order of their paths. The merge is a JSON merge patch (RFC 7386): fields replace,
// lists replace as a whole, and null removes a field. Each file is a complete KubeletConfiguration.
// Relative paths are relative to their file. The error lists all invalid files.
func readFiles(file, dir string) (map[string]any, error) {
	all := map[string]any{}
	var errs []error
	add := func(flag, path string) {
		fields, err := readFields(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
		merge(all, fields)
	}
	if file != "" {
		add("--config", file)
	}
	if dir != "" {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && filepath.Ext(path) == ".conf" {
				add("--config-dir", path)
			}
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("--config-dir: %w", err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

func merge(fields, patch map[string]any) {
	for name, value := range patch {
		below, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(fields, name)
		case isMap:
			to, ok := fields[name].(map[string]any)
			if !ok {
				to = map[string]any{}
				fields[name] = to
			}
			merge(to, below)
		default:
			fields[name] = value
		}
	}
}
