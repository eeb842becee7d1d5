// Package fields checks and completes the configurations of constructors, so that all packages
// have the same errors and defaults:
//
//	f := fields.Of("pleg: Config")
//	f.Required("Runtime", c.Runtime)             // pleg: Config.Runtime is required
//	fields.Number(f, "Period", &c.Period, time.Second) // pleg: Config.Period is negative: -1s
//	fields.Default(&c.OnEvent, func(Event) {})
//	fields.Logger(&c.Logger)
//	return f.Err()
package fields

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
)

// Check collects the errors of one configuration. Use Of.
type Check struct {
	config string
	errs   []error
}

// Of returns the Check of a configuration with this package and type: "pleg: Config".
func Of(config string) *Check { return &Check{config: config} }

// Err returns the errors of all fields, or nil.
func (c *Check) Err() error { return errors.Join(c.errs...) }

// Refuse adds an error about a field: "Rate is above 1: 2". The format may have a %w.
func (c *Check) Refuse(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s.%w", c.config, fmt.Errorf(format, args...)))
}

// Checked adds an error whose text begins with a field's name. It ignores nil.
func (c *Check) Checked(err error) {
	if err != nil {
		c.Refuse("%w", err)
	}
}

// Required refuses a missing value: an empty string, nil, or an interface with a nil
// pointer, function, map or channel.
func (c *Check) Required(field string, value any) {
	if missing(value) {
		c.Refuse("%s is required", field)
	}
}

// Absolute refuses a path that is missing or relative.
func (c *Check) Absolute(field, path string) {
	c.Required(field, path)
	if path != "" && !filepath.IsAbs(path) {
		c.Refuse("%s is not absolute: %q", field, path)
	}
}

// Required returns the error of Check.Required for one name, such as "fake: Serve: listener".
func Required(name string, value any) error {
	if missing(value) {
		return errors.New(name + " is required")
	}
	return nil
}

// Number refuses a negative value and replaces zero by its default.
func Number[T ~int | ~int64 | ~float64](c *Check, field string, value *T, zero T) {
	if *value < 0 {
		c.Refuse("%s is negative: %v", field, *value)
	}
	Default(value, zero)
}

// Default replaces the zero value.
func Default[T any](value *T, zero T) {
	if reflect.ValueOf(value).Elem().IsZero() {
		*value = zero
	}
}

// Logger replaces nil by a logger that discards.
func Logger(logger **slog.Logger) {
	if *logger == nil {
		*logger = slog.New(slog.DiscardHandler)
	}
}

// AlreadyRun returns the ErrAlreadyRun of a package.
func AlreadyRun(pkg string) error { return errors.New(pkg + ": Run was called before") }

func missing(value any) bool {
	if value == nil {
		return true
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan:
		return v.IsNil()
	case reflect.String:
		return v.Len() == 0
	default:
		return false
	}
}
