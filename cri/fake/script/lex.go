package script

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseError says where a script's text is wrong.
type ParseError struct {
	// Line and Column say where, from 1. Column counts characters.
	Line, Column int
	// Problem says what is wrong, and what was expected instead.
	Problem string
}

// Error gives the place and the problem.
func (e *ParseError) Error() string {
	return fmt.Sprintf("script: line %d, column %d: %s", e.Line, e.Column, e.Problem)
}

// token is a word, a quoted string, or a mark: ":", ",", or "" for the line's end.
type token struct {
	text   string
	quoted bool
	column int
}

// is tells whether the token is the given word or mark.
func (t token) is(text string) bool { return !t.quoted && t.text == text }

// end tells whether the line has no more.
func (t token) end() bool { return t.is("") }

func (t token) String() string {
	switch {
	case t.quoted:
		return strconv.Quote(t.text)
	case t.end():
		return "the end of the line"
	}
	return "'" + t.text + "'"
}

// lex cuts a line into tokens; the last is the end of the line. A problem is at
// the given column.
func lex(line string) (tokens []token, column int, problem string) {
	rest := line
	at := func() int { return utf8.RuneCountInString(line[:len(line)-len(rest)]) + 1 }
	for {
		rest = strings.TrimLeft(rest, " \t\r")
		t := token{column: at()}
		switch {
		case rest == "" || rest[0] == '#':
			return append(tokens, t), 0, ""
		case rest[0] == '"':
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, t.column, "a text begins here that does not end, or has an escape that is none"
			}
			t.quoted = true
			t.text, _ = strconv.Unquote(quoted)
			rest = rest[len(quoted):]
		case rest[0] == ':' || rest[0] == ',':
			t.text, rest = rest[:1], rest[1:]
		default:
			n := wordLength(rest)
			if n == 0 {
				c, _ := utf8.DecodeRuneInString(rest)
				return nil, t.column, fmt.Sprintf("%q cannot be here without quotes", c)
			}
			t.text, rest = rest[:n], rest[n:]
		}
		tokens = append(tokens, t)
	}
}

// wordLength measures the word that s begins with. A colon belongs to a word
// when something of the word comes behind it.
func wordLength(s string) int {
	n := strings.IndexFunc(s, func(c rune) bool { return !isWord(c) })
	if n < 0 {
		n = len(s)
	}
	return len(strings.TrimRight(s[:n], ":"))
}
