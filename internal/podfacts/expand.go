package podfacts

import "strings"

// Limits for the expanded variables, command and arguments of a container, whose references can
// multiply a small spec. Linux limits each string to 128 KiB, including its terminating NUL, and
// all strings together to a quarter of the stack's limit, usually 2 MiB.
const (
	MaxExecString = 128<<10 - 1
	MaxExecTotal  = 2 << 20
)

// Expand replaces $(NAME) by the variable's value, in commands, arguments and variables of a
// container. $$ is a plain $. Names that lookup does not find and unclosed parentheses stay as
// they are. It returns ok false if the result exceeds limit, in bytes.
func Expand(text string, limit int, lookup func(string) (string, bool)) (out string, ok bool) {
	if strings.IndexByte(text, '$') < 0 {
		return text, len(text) <= limit
	}
	var b strings.Builder
	for text != "" {
		piece, rest := nextPiece(text, lookup)
		if len(piece) > limit-b.Len() {
			return "", false
		}
		b.WriteString(piece)
		text = rest
	}
	return b.String(), true
}

// nextPiece returns the expansion of the beginning of a text, and the rest of the text.
func nextPiece(text string, lookup func(string) (string, bool)) (piece, rest string) {
	switch i := strings.IndexByte(text, '$'); {
	case i < 0 || i == len(text)-1:
		return text, ""
	case i > 0:
		return text[:i], text[i:]
	case text[1] == '$':
		return "$", text[2:]
	case text[1] != '(':
		return text[:2], text[2:]
	}
	name, rest, closed := strings.Cut(text[2:], ")")
	if !closed {
		return text[:2], text[2:]
	}
	if value, ok := lookup(name); ok {
		return value, rest
	}
	return strings.TrimSuffix(text, rest), rest
}
