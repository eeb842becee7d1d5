package podfacts

import "strings"

// Expand replaces $(NAME) by the variable's value. $$ is a plain $; names that
// lookup does not know and parentheses that do not close stay as they are. It is
// how commands, arguments and variables of a container refer to its variables.
func Expand(text string, lookup func(string) (string, bool)) string {
	if strings.IndexByte(text, '$') < 0 {
		return text
	}
	var out strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i == len(text)-1 {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:i])
		rest := text[i+1:]
		end := -1
		if rest[0] == '(' {
			end = strings.IndexByte(rest, ')')
		}
		switch {
		case rest[0] == '$':
			out.WriteByte('$')
			text = rest[1:]
		case end < 0:
			out.WriteByte('$')
			out.WriteByte(rest[0])
			text = rest[1:]
		default:
			if value, ok := lookup(rest[1:end]); ok {
				out.WriteString(value)
			} else {
				out.WriteString("$" + rest[:end+1])
			}
			text = rest[end+1:]
		}
	}
}
