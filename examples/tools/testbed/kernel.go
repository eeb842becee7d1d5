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

// kernelParameters are the parameters that kubelets change. Some tests run kubelets.
var kernelParameters = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// readKernel reads the parameters below root, /proc/sys. Parameters that the kernel lacks are
// omitted.
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

// restoreKernel writes back the parameters that have changed.
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
