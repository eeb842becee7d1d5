// Package required refuses missing fields of configurations. Package fields replaces it.
package required

import "github.com/podwright/podwright/internal/fields"

// Field is fields.Required.
func Field(field string, value any) error { return fields.Required(field, value) }
