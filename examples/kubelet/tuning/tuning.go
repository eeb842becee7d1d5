// Package tuning sets kernel parameters that a node depends on: memory overcommit is allowed, a
// panic leads to a reboot, and root's containers can have enough keys.
//
// Runnable example: Example in tuning_test.go.
package tuning

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// A Setting is a kernel parameter with its required value.
type Setting struct{ Name, Value string }

// Settings returns the required settings.
func Settings() []Setting {
	return []Setting{
		{"vm.overcommit_memory", "1"},
		{"vm.panic_on_oom", "0"},
		{"kernel.panic", "10"},
		{"kernel.panic_on_oops", "1"},
		{"kernel.keys.root_maxkeys", "1000000"},
		{"kernel.keys.root_maxbytes", "25000000"},
	}
}

// Config configures Apply. Root is required.
type Config struct {
	// Root is the folder of the parameters: os.DirFS("/proc/sys").
	Root fs.FS
	// Write sets a parameter by its path below Root. Optional: without it a wrong value is an error
	// (protectKernelDefaults).
	Write func(name, value string) error
	// OnChange is called after each change, with the former value. Optional.
	OnChange func(s Setting, from string)
}

// ErrProtected is wrapped by the errors about wrong values that Apply must not change.
var ErrProtected = errors.New("not changed because of protectKernelDefaults")

// Apply checks all parameters and corrects wrong values. It returns all errors, joined.
func Apply(c Config) error {
	if c.Root == nil {
		return errors.New("tuning: Config.Root is required")
	}
	var errs []error
	for _, s := range Settings() {
		if err := c.apply(s); err != nil {
			errs = append(errs, fmt.Errorf("kernel parameter %s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) apply(s Setting) error {
	name := strings.ReplaceAll(s.Name, ".", "/")
	data, err := fs.ReadFile(c.Root, name)
	if err != nil {
		return err
	}
	has := strings.TrimSpace(string(data))
	switch {
	case has == s.Value:
		return nil
	case c.Write == nil:
		return fmt.Errorf("is %s, must be %s: %w", has, s.Value, ErrProtected)
	}
	if err := c.Write(name, s.Value); err != nil {
		return fmt.Errorf("is %s, must be %s: %w", has, s.Value, err)
	}
	if c.OnChange != nil {
		c.OnChange(s, has)
	}
	return nil
}
