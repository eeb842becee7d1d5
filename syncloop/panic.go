package syncloop

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is what the package makes of a panic in something that it calls: a
// handler, an event source, an admitter, a cleaner.
type PanicError struct {
	// What panicked, in words.
	What string
	// Value is what it panicked with.
	Value any
	// Stack is where, as debug.Stack prints it.
	Stack []byte
}

// Error names what panicked, and the value.
func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.What, e.Value) }

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// guard calls f and makes an error of a panic.
func guard(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{What: what, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// stackOf returns where the panic in err happened, or nothing.
func stackOf(err error) string {
	var panicked *PanicError
	if errors.As(err, &panicked) {
		return string(panicked.Stack)
	}
	return ""
}
