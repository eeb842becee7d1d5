package request

import (
	"errors"
	"fmt"
)

// FieldError is what is wrong with a field of a pod's spec. A Volumes answers with one
// when it is the volume that is wrong, whatever mounts it.
type FieldError struct {
	// Path is the field's, such as "spec.volumes[0].hostPath.type".
	Path string
	Err  error
}

// Error names the field.
func (e *FieldError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns what is wrong with it.
func (e *FieldError) Unwrap() error { return e.Err }

// at names the field of an error that does not name one itself.
func at(path string, err error) error {
	if fault := (*FieldError)(nil); errors.As(err, &fault) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
