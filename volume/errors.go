package volume

import (
	"errors"
	"fmt"

	"github.com/podwright/podwright/internal/run"
)

// Errors to test for.
var (
	// ErrUncertain is wrapped by the error of a Mount or Stage whose call may have had an
	// effect, or may have one yet: the volume counts as mounted when the pod ends. An
	// error that wraps neither this nor ErrTransient is final: nothing was mounted, and
	// nothing has to be unmounted.
	ErrUncertain = errors.New("the outcome is uncertain")
	// ErrTransient is wrapped by the error of a Mount or Stage that did not come to
	// trying: nothing has changed, whatever there was.
	ErrTransient = errors.New("not now")
	// ErrNotFound is wrapped by the error of an object that does not exist: a config map,
	// a secret, a claim.
	ErrNotFound = errors.New("not found")
)

// Uncertain marks an error: see ErrUncertain. nil stays nil.
func Uncertain(err error) error { return mark(err, ErrUncertain) }

// Transient marks an error: see ErrTransient. nil stays nil.
func Transient(err error) error { return mark(err, ErrTransient) }

func mark(err, as error) error {
	if err == nil || errors.Is(err, ErrUncertain) || errors.Is(err, ErrTransient) {
		return err
	}
	return &marked{err, as}
}

// marked is an error of a kind that its text does not speak of.
type marked struct{ err, as error }

func (m *marked) Error() string   { return m.err.Error() }
func (m *marked) Unwrap() []error { return []error{m.err, m.as} }

// FieldError is what is wrong with a field of a pod's spec. A Plugin answers with one
// whose path begins at the volume's source ("hostPath.type"); those who know where the
// source stands complete it, with AtField.
type FieldError struct {
	// Path is the field's, such as "spec.volumes[0].hostPath.type".
	Path string
	Err  error
}

// Error names the field.
func (e *FieldError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns what is wrong with it.
func (e *FieldError) Unwrap() error { return e.Err }

// AtField says in which field an error is. The path of a FieldError is taken to begin
// there. Of errors joined by this library it says so of each; marks (Transient,
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
