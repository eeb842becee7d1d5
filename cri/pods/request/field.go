package request

import (
	"errors"
	"fmt"

	"github.com/podwright/podwright/volume"
)

// FieldError is what is wrong with a field of a pod's spec. A Volumes answers with one
// when it is the volume that is wrong, whatever mounts it.
type FieldError = volume.FieldError

// at names the field of an error that does not name one itself.
func at(path string, err error) error {
	if fault := (*FieldError)(nil); errors.As(err, &fault) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
