package podsource

import (
	"fmt"
	"path"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checker collects the errors of a pod.
type checker struct {
	pod  *v1.Pod
	errs field.ErrorList
}

func (c *checker) add(errs ...*field.Error) { c.errs = append(c.errs, errs...) }

// invalid adds the messages of a validator about a value.
func (c *checker) invalid(at *field.Path, value any, complaints ...string) {
	for _, complaint := range complaints {
		c.add(field.Invalid(at, value, complaint))
	}
}

// required reports whether value is set, and adds an error if it is empty.
func (c *checker) required(at *field.Path, value string) bool {
	if value == "" {
		c.add(field.Required(at, ""))
	}
	return value != ""
}

// unique adds an error for a repeated value.
func unique[K comparable](c *checker, seen map[K]bool, key K, at *field.Path, value any) {
	if seen[key] {
		c.add(field.Duplicate(at, value))
	}
	seen[key] = true
}

// oneOf adds an error for a value that is not allowed.
func oneOf[T ~string](c *checker, at *field.Path, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		c.add(field.NotSupported(at, value, allowed))
	}
}

func (c *checker) atLeast(at *field.Path, value *int64, least int64) {
	if value != nil && *value < least {
		c.invalid(at, *value, fmt.Sprintf("must be at least %d", least))
	}
}

// absolute reports whether a path is absolute, and adds an error if it is missing or relative.
func (c *checker) absolute(at *field.Path, value string) bool {
	if !c.required(at, value) {
		return false
	}
	if !path.IsAbs(value) {
		c.invalid(at, value, "must be absolute")
	}
	return path.IsAbs(value)
}
