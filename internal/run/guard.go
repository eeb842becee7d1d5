package run

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is a recovered panic.
type PanicError struct {
	// What is the name of the code that panicked.
	What string
	// Value is the argument of panic.
	Value any
	// Stack is the stack of the goroutine, as debug.Stack prints it.
	Stack []byte
}

// Error returns the name of the code that panicked, and the value.
func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.What, e.Value) }

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Guard calls f and returns a panic as a PanicError.
func Guard(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{What: what, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// StackOf returns the stack of the PanicError in err, or "".
func StackOf(err error) string {
	if err == nil {
		return "" // without an allocation
	}
	var panicked *PanicError
	if errors.As(err, &panicked) {
		return string(panicked.Stack)
	}
	return ""
}
