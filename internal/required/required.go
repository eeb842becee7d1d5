// Package required says in one way which field of a configuration is missing.
package required

import (
	"errors"
	"reflect"
)

// Field refuses a value that is missing: an empty text, nil, or an interface that holds
// a nil pointer, function, map or channel, whose methods would panic when it is too late.
// field names it with its package: "pleg: Config.Runtime".
func Field(field string, value any) error {
	if missing(value) {
		return errors.New(field + " is required")
	}
	return nil
}

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
