package run

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError is a panic in code that others wrote, as an error.
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

// Guard calls f and makes an error of a panic.
func Guard(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{What: what, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// StackOf returns where the panic in err happened, "" if err is none.
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
