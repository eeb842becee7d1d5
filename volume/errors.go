package volume

import (
	"errors"
	"fmt"

	"github.com/podwright/podwright/internal/run"
)

var (
	// ErrUncertain is wrapped by the error of a Mount or Stage that may have taken effect, or
	// may still take effect. The agent treats the volume as mounted when the pod ends. An error
	// that wraps neither ErrUncertain nor ErrTransient is final: the call mounted no volume,
	// and none needs an unmount.
	ErrUncertain = errors.New("the outcome is uncertain")
	// ErrTransient is wrapped by the error of a Mount or Stage that failed before its first
	// change. The state of the volume is as before the call.
	ErrTransient = errors.New("not now")
	// ErrNotFound is wrapped by the error for an object that does not exist, such as a config
	// map, a secret or a claim.
	ErrNotFound = errors.New("not found")
)

// Uncertain marks err with ErrUncertain. A nil error stays nil, and an error that has a mark
// keeps it.
func Uncertain(err error) error { return mark(err, ErrUncertain) }

// Transient marks err with ErrTransient. A nil error stays nil, and an error that has a mark
// keeps it.
func Transient(err error) error { return mark(err, ErrTransient) }

func mark(err, as error) error {
	if err == nil || errors.Is(err, ErrUncertain) || errors.Is(err, ErrTransient) {
		return err
	}
	return &marked{err, as}
}

// marked adds a mark to an error without changing its text.
type marked struct{ err, as error }

func (m *marked) Error() string   { return m.err.Error() }
func (m *marked) Unwrap() []error { return []error{m.err, m.as} }

// FieldError is an error in a field of a pod's spec. The Path of a plugin's error begins at the
// volume's source ("hostPath.type"). Callers prepend the position of the source with AtField.
type FieldError struct {
	// Path is the path of the field, such as "spec.volumes[0].hostPath.type".
	Path string
	Err  error
}

// Error returns the path and the error.
func (e *FieldError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// AtField prepends path to the path of a FieldError and wraps any other error in a FieldError
// with that path. It does so for each error that this library joined. Marks (Transient,
// Uncertain) stay.
func AtField(path string, err error) error {
	return run.EachOf(err, func(err error) error {
		switch e := err.(type) {
		case *FieldError:
			return &FieldError{Path: path + "." + e.Path, Err: e.Err}
		case *marked:
			return &marked{AtField(path, e.err), e.as}
		}
		return &FieldError{Path: path, Err: err}
	})
}
