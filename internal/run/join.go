package run

import (
	"errors"
	"fmt"
	"strings"
)

// The text of a joined error contains at most so many errors, and at most so many bytes of each.
const (
	joinedErrors = 5
	joinedBytes  = 2 << 10
)

// Join is errors.Join with a bounded text: the first five errors, and the number of the rest.
// errors.Is and errors.As find all of them.
func Join(errs ...error) error {
	var joined joinedError
	for _, err := range errs {
		if err != nil {
			joined = append(joined, err)
		}
	}
	if len(joined) == 0 {
		return nil
	}
	return joined
}

// EachOf applies f to an error, or to each error inside an error of Join, at any depth.
func EachOf(err error, f func(error) error) error {
	joined, ok := err.(joinedError)
	if !ok {
		return f(err)
	}
	out := make([]error, len(joined))
	for i, err := range joined {
		out[i] = EachOf(err, f)
	}
	return Join(out...)
}

// joinedError is at least one error.
type joinedError []error

func (j joinedError) Error() string {
	var lines []string
	for _, err := range j[:min(len(j), joinedErrors)] {
		text := err.Error()
		if len(text) > joinedBytes && !errors.As(err, new(joinedError)) {
			text = strings.ToValidUTF8(text[:joinedBytes], "") + "..."
		}
		lines = append(lines, text)
	}
	if more := len(j) - joinedErrors; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

func (j joinedError) Unwrap() []error { return j }
