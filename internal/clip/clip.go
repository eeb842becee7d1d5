// Package clip bounds texts of other programs.
package clip

import (
	"strings"
	"unicode/utf8"
)

// The limits of a runtime's texts, in bytes. They are the API's limit for a condition's reason and
// the limit for termination messages.
const (
	Reason  = 1 << 10
	Message = 4 << 10
)

// Text truncates a text to at most limit bytes, at a character boundary. It returns a short text
// itself, and a copy of the first part of a longer one.
func Text(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for i := limit; i > limit-utf8.UTFMax && i >= 0; i-- {
		if utf8.RuneStart(text[i]) {
			return strings.Clone(text[:i])
		}
	}
	return strings.Clone(text[:limit]) // not UTF-8
}
