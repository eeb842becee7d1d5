// Package tuning holds the kernel to what a node depends on: that memory which was asked
// for is given out, that a panic ends in a restart, and that the keys of root's containers
// have room.
//
// An example that runs: Example in tuning_test.go.
package tuning

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// A Setting is a parameter of the kernel, and what it has to be.
type Setting struct{ Name, Value string }

// Settings are those that nodes depend on.
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
	// Root has the parameters: os.DirFS("/proc/sys").
	Root fs.FS
	// Write changes one, by its name below Root. nil: what is not as it has to be is an
	// error (protectKernelDefaults).
	Write func(name, value string) error
	// OnChange is called after each change, with the former value. Optional.
	OnChange func(s Setting, from string)
}

// ErrProtected is wrapped by the errors about parameters that must not be changed.
var ErrProtected = errors.New("it is not changed (protectKernelDefaults)")

// Apply looks at all parameters, and changes those that are not as they have to be. All
// that goes wrong is named.
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
		return fmt.Errorf("is %s and has to be %s: %w", has, s.Value, ErrProtected)
	}
	if err := c.Write(name, s.Value); err != nil {
		return fmt.Errorf("is %s and has to be %s: %w", has, s.Value, err)
	}
	if c.OnChange != nil {
		c.OnChange(s, has)
	}
	return nil
}
