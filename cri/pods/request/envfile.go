package request

import (
	"fmt"
	"strings"
)

// parseEnvFile returns the value of a variable in a file of lines KEY='value',
// "" if the file does not have it. The syntax is the part of a shell's that has
// one meaning only: values stand in single quotes, have no escapes, and may go
// over several lines; blank lines, lines that begin with # and a # after the
// closing quote are comments; a blank before the = is an error, and one after it
// makes the value empty, as it would for a shell. The first mention of the key
// counts, and what comes after it is not looked at.
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

// envFile reads a file line by line.
type envFile struct {
	rest   string
	line   string
	number int
}

// next moves on to the next line, and tells whether there is one.
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

// assignment parses what begins at the current line; name is "" for a comment.
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

// quoted reads up to the closing quote, if need be from the following lines.
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
			return "", fmt.Errorf("the single quote of line %d is not closed", start)
		}
		text = p.line
	}
}
