package podfacts

import "strings"

// What a container's variables, command and arguments may be, however little their
// spec is: references multiply. Linux takes strings of up to 128 KiB each, with the
// NUL at their end, and of all of them a quarter of the stack's limit, usually 2 MiB.
const (
	MaxExecString = 128<<10 - 1
	MaxExecTotal  = 2 << 20
)

// Expand replaces $(NAME) by the variable's value. $$ is a plain $; names that
// lookup does not know and parentheses that do not close stay as they are. It is
// how commands, arguments and variables of a container refer to its variables. It
// gives up, ok false, before there is more of it than limit, in bytes.
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

// nextPiece returns what the beginning of a text expands to, and what is behind it.
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
