package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// readAll reads the configuration file, if there is one, and merges every *.conf file below dir
// into it, in the order of their paths. The merge is a JSON merge patch (RFC 7386): fields replace,
// lists replace as a whole, and null removes a field. The error lists all invalid files.
func (r *reader) readAll(file, dir string) error {
	var errs []error
	if file != "" {
		data, err := load(file)
		if err == nil {
			err = r.read(file, data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--config: %w", err))
		}
	}
	if dir == "" {
		return errors.Join(errs...)
	}
	// The slash selects the folder behind a link; WalkDir does not follow links.
	err := filepath.WalkDir(dir+"/", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
		case filepath.Ext(path) != ".conf":
			r.warnings = append(r.warnings, "--config-dir: "+path+": ignored: the name does not end in .conf")
		default:
			data, err := loadDropIn(path)
			if err == nil {
				err = r.read(path, data)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("--config-dir: %w", err))
			}
		}
		return nil
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("--config-dir: %w", err))
	}
	return errors.Join(errs...)
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
