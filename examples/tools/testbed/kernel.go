package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// kernelParameters are those that kubelets change: tests run some.
var kernelParameters = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// readKernel reads them below a folder, /proc/sys. What a kernel does not have is left out.
func readKernel(root string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range kernelParameters {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			out[name] = string(text)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return out, nil
}

// restoreKernel writes back those that are not as they were.
func restoreKernel(root string, before map[string]string) error {
	now, err := readKernel(root)
	errs := []error{err}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now[name] == before[name] {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(before[name]), 0); err != nil {
			errs = append(errs, fmt.Errorf("kernel parameter: %w", err))
		}
	}
	return errors.Join(errs...)
}
