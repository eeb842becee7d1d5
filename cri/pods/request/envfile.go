package request

import (
	"fmt"
	"strings"
)

// parseEnvFile returns the value of a variable in a file of lines KEY='value', or "" if the file
// does not have the key. The syntax is the unambiguous part of a shell's:
//   - Values are in single quotes, have no escapes, and may span lines.
//   - Blank lines, lines that begin with #, and a # after the closing quote are comments.
//   - A blank before the = is an error. A blank after it makes the value empty, as in a shell.
//   - The first assignment of the key counts; the rest of the file is not parsed.
func parseEnvFile(content, key string) (string, error) {
	p := &envFile{rest: content}
	for p.next() {
		name, value, err := p.assignment()
		if err != nil {
			return "", fmt.Errorf("invalid environment variable format at line %d: %w", p.number, err)
		}
		if name == key {
			return value, nil
		}
	}
	return "", nil
}

type envFile struct {
	rest   string
	line   string
	number int
}

// next moves to the next line and reports whether there is one.
func (p *envFile) next() bool {
	if p.rest == "" {
		return false
	}
	p.line, p.rest, _ = strings.Cut(p.rest, "\n")
	p.line = strings.TrimSuffix(p.line, "\r")
	p.number++
	return true
}

const envBlank = " \t"

// assignment parses the assignment at the current line. name is "" for a comment.
func (p *envFile) assignment() (name, value string, err error) {
	line := strings.TrimLeft(p.line, envBlank)
	if line == "" || line[0] == '#' {
		return "", "", nil
	}
	name, text, ok := strings.Cut(line, "=")
	switch {
	case !ok:
		return "", "", fmt.Errorf("missing '='")
	case strings.TrimRight(name, envBlank) == "":
		return "", "", fmt.Errorf("empty variable name")
	case strings.TrimRight(name, envBlank) != name:
		return "", "", fmt.Errorf("whitespace before '=' is not allowed")
	case strings.TrimLeft(text, envBlank) != text:
		return name, "", nil
	case !strings.HasPrefix(text, "'"):
		return "", "", fmt.Errorf("value must be enclosed in single quotes")
	}
	value, err = p.quoted(text[1:])
	return name, value, err
}

// quoted reads up to the closing quote, across lines if necessary.
func (p *envFile) quoted(text string) (string, error) {
	var value strings.Builder
	start := p.number
	for {
		inside, after, closed := strings.Cut(text, "'")
		value.WriteString(inside)
		if closed {
			if after = strings.TrimLeft(after, envBlank); after != "" && after[0] != '#' {
				return "", fmt.Errorf("unexpected content after closing quote")
			}
			return value.String(), nil
		}
		value.WriteByte('\n')
		if !p.next() {
			return "", fmt.Errorf("unclosed single quote at line %d", start)
		}
		text = p.line
	}
}
